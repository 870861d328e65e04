"""The oracle for the kinds of messages: what was asked for each of them, and what readers may see of it.

    plain ─────────────────────────────┐
    delayed, timed ─▶ not before due ──┼─▶ once in its topic ─▶ handed back ─▶ %RETRY%, 1, 2, … ─▶ %DLQ%
    half ─▶ commit (perhaps delayed) ──┘
         └▶ rolled back, never decided ─▶ never seen

`seen` judges each message when a reader gets it, `audit` all queues as they are after a start and at the
end. It knows no network and no files. A crash drops promises that it need not keep (`died`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from roquet.sim.attempts import Wrong
from roquet.sim.clock import START_MS

MIXED, HARD, RETRY, DEAD = "mixed", "hard", "%RETRY%workers", "%DLQ%workers"
DURABLE_AFTER_S = 12.0  # what was not waited for is on disk by then
FOREVER = float("inf")


class Intent(Enum):
    """What the producer of a half means to do with it; DIRECT messages are no halves."""

    DIRECT = "direct"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SILENCE = "silence"


class Wait(NamedTuple):
    """What a message asks to wait for: a level's delay, a time span, or a moment of the wall clock."""

    level: int = 0
    delay_ms: int = 0
    deliver_ms: int = 0


class Seen(NamedTuple):
    """A message as a reader got it."""

    topic: str
    queue_id: int
    queue_offset: int
    log_offset: int
    times: int
    dequeued_ms: int
    body: bytes


class Walls:
    """The readings of a wall clock over a run: virtual time, plus all jumps so far."""

    def __init__(self) -> None:
        self._jumps: list[tuple[float, int]] = [(0.0, 0)]

    def jumped(self, at: float, delta_ms: int) -> None:
        self._jumps.append((at, self._jumps[-1][1] + delta_ms))

    def at(self, when: float) -> int:
        return self.range(when, when)[1]

    def range(self, begin: float, end: float) -> tuple[int, int]:
        """Return the lowest and the highest reading between two moments."""
        readings = []
        for number, (since, jumped_ms) in enumerate(self._jumps):
            until = self._jumps[number + 1][0] if number + 1 < len(self._jumps) else FOREVER
            low, high = max(since, begin), min(until, end)
            if low <= high:
                readings += [START_MS + int(when * 1000 + 1e-6) + jumped_ms for when in (low, high)]
        return min(readings), max(readings)


class Turn:
    """The attempts to hand one message back after its n-th try."""

    __slots__ = ("begun_at", "count", "firm_since")

    def __init__(self, now: float) -> None:
        self.begun_at = now
        self.count = 0
        self.firm_since = FOREVER  # when an answer said that it is stored


class Letter:
    """One message, by its body, from its sender's wish to its end."""

    def __init__(
        self, number: int, topic: str, queue_id: int, wait: Wait, intent: Intent, now: float
    ) -> None:
        self.number, self.topic, self.queue_id, self.wait, self.intent = number, topic, queue_id, wait, intent
        self.body = f"letter {number} ".encode()
        self.is_hopeless = topic == HARD and number % 5 == 0  # goes to the dead letters at once
        self.begun_at = now
        self.answered_at = FOREVER
        self.decided_at = FOREVER  # when its producer first said: commit
        self.firm_since = FOREVER  # since when it must not be lost any more
        self.turns: dict[int, Turn] = {}

    def __str__(self) -> str:
        return f"{self.body!r} ({self.intent.value}, {self.wait}, {self.topic}/{self.queue_id})"

    @property
    def is_required(self) -> bool:
        return self.firm_since < FOREVER and self.intent in (Intent.DIRECT, Intent.COMMIT)


class Diary:
    """All letters of a run."""

    def __init__(self, walls: Walls, levels_ms: tuple[int, ...], times_max: int, *, is_sync: bool) -> None:
        self._walls = walls
        self._levels_ms = levels_ms
        self._times_max = times_max
        self._is_sync = is_sync
        self._is_doubling = False  # since a power cut with ASYNC flush, timed messages may come twice
        self.letters: dict[bytes, Letter] = {}

    # --- what senders and consumers did

    def begin(self, topic: str, queue_id: int, wait: Wait, intent: Intent, now: float) -> Letter:
        letter = Letter(len(self.letters), topic, queue_id, wait, intent, now)
        self.letters[letter.body] = letter
        return letter

    def stored(self, letter: Letter, now: float) -> None:
        """Take the answer to a send: the message (or half) is on disk, as far as the mode promises."""
        letter.answered_at = now
        letter.firm_since = min(letter.firm_since, now)

    def deciding(self, letter: Letter, now: float) -> None:
        letter.decided_at = min(letter.decided_at, now)

    def handing_back(self, seen: Seen, now: float) -> Turn:
        turn = self.letters[seen.body].turns.setdefault(seen.times, Turn(now))
        turn.count += 1
        return turn

    def handed_back(self, turn: Turn, now: float) -> None:
        turn.firm_since = min(turn.firm_since, now)

    def died(self, now: float) -> None:
        """Drop what a power cut may take: with SYNC only what was answered without waiting for the disk,
        which hand-backs are, as with Apache."""
        self._is_doubling = self._is_doubling or not self._is_sync
        for letter in self.letters.values():
            if not self._is_sync and letter.firm_since >= now - DURABLE_AFTER_S:
                letter.firm_since = FOREVER
            for turn in letter.turns.values():
                if turn.firm_since >= now - DURABLE_AFTER_S:
                    turn.firm_since = FOREVER

    # --- what readers saw

    def seen(self, seen: Seen, now: float) -> Letter:
        """Judge a message that a reader has just got."""
        letter = self.letters.get(seen.body)
        if letter is None:
            raise Wrong(f"nobody ever sent {seen}")
        if seen.times:
            self._check_retry(letter, seen, now)
        else:
            self._check_first(letter, seen, now)
            letter.firm_since = min(letter.firm_since, now)
        return letter

    def _check_first(self, letter: Letter, seen: Seen, now: float) -> None:
        if (seen.topic, seen.queue_id) != (letter.topic, letter.queue_id):
            raise Wrong(f"{letter} came out as {seen}")
        begun_at, answered_at = letter.begun_at, letter.answered_at
        if letter.intent is not Intent.DIRECT:
            if letter.decided_at > now:
                raise Wrong(f"{letter} is a half that nobody has committed, and was read: {seen}")
            begun_at, answered_at = letter.decided_at, FOREVER
        if letter.wait.level:
            delay_ms = self._levels_ms[letter.wait.level - 1]
            self._check_level(f"{letter}", begun_at, answered_at, delay_ms, now)
            return
        due_ms = letter.wait.deliver_ms
        if letter.wait.delay_ms:
            due_ms = self._walls.range(begun_at, min(answered_at, now))[0] + letter.wait.delay_ms
        latest_ms = seen.dequeued_ms or self._walls.range(begun_at, now)[1]
        if latest_ms < due_ms:
            raise Wrong(f"{letter} is due at {due_ms} and was delivered at {latest_ms}")

    def _check_retry(self, letter: Letter, seen: Seen, now: float) -> None:
        turn = letter.turns.get(seen.times - 1)
        if turn is None:
            raise Wrong(f"{letter}: nobody has handed back try {seen.times - 1}, and there is {seen}")
        last = 1 if letter.is_hopeless else self._times_max + 1
        if seen.topic != (DEAD if seen.times == last else RETRY) or seen.times > last:
            raise Wrong(f"{letter}: try {seen.times} of {last} came in {seen.topic}")
        if seen.topic == RETRY:
            level = min(3 + seen.times - 1, len(self._levels_ms))
            delay_ms = self._levels_ms[level - 1]
            self._check_level(f"{letter}, try {seen.times}", turn.begun_at, FOREVER, delay_ms, now)

    def _check_level(self, what: str, begun_at: float, answered_at: float, delay_ms: int, now: float) -> None:
        """A level waits until the wall clock has gone on by its delay; when it was set back meanwhile, a
        whole delay by any clock is enough."""
        stored_ms, _ = self._walls.range(begun_at, min(answered_at, now))
        _, latest_ms = self._walls.range(begun_at, now)
        if latest_ms < stored_ms + delay_ms and now - begun_at < delay_ms / 1000:
            raise Wrong(f"{what} was to wait {delay_ms} ms since {stored_ms}, and is here at {latest_ms}")

    # --- all queues

    def audit(self, found: Iterable[Seen], now: float) -> None:
        """Judge everything that readers can see: right, once, in order, nothing that was there is gone."""
        copies: dict[tuple[bytes, int], int] = {}
        last: dict[tuple[str, int, int], Letter] = {}
        for seen in found:
            letter = self.seen(seen, now)
            key = (seen.body, seen.times)
            copies[key] = copies.get(key, 0) + 1
            is_once = not (self._is_doubling and (letter.wait.delay_ms or letter.wait.deliver_ms))
            if is_once and copies[key] > (letter.turns[seen.times - 1].count if seen.times else 1):
                raise Wrong(f"{letter} is there twice: {seen}")
            self._check_order(letter, seen, last)

    @staticmethod
    def _check_order(letter: Letter, seen: Seen, last: dict[tuple[str, int, int], Letter]) -> None:
        """One level, or none, keeps the order in which messages were sent and answered."""
        is_ordered = (
            letter.intent is Intent.DIRECT and not letter.wait.delay_ms and not letter.wait.deliver_ms
        )
        if seen.times or not is_ordered:
            return
        key = (letter.topic, letter.queue_id, letter.wait.level)
        before = last.get(key)
        if before is not None and letter.answered_at < before.begun_at:
            raise Wrong(f"{letter} comes behind {before}, which was sent later")
        last[key] = letter if before is None else max(letter, before, key=lambda each: each.begun_at)

    def missing(self, found: Iterable[Seen]) -> list[str]:
        """Return what must have come out by now and has not."""
        present = {(seen.body, seen.times) for seen in found}
        lost = []
        for letter in self.letters.values():
            if letter.is_required and (letter.body, 0) not in present:
                lost.append(str(letter))
            lost += [
                f"{letter}, try {times + 1}"
                for times, turn in letter.turns.items()
                if turn.firm_since < FOREVER and (letter.body, times + 1) not in present
            ]
            end = 1 if letter.is_hopeless else self._times_max + 1
            if letter.topic == HARD and (letter.body, 0) in present and (letter.body, end) not in present:
                lost.append(f"{letter} is not with the dead letters")
        return lost
