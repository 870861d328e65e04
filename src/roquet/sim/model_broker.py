"""The oracle: what one broker must still know, in dicts and lists.

Clients tell it what they tried and how it was answered, the cluster when a broker died and how. It says
`Wrong` as soon as something is seen that cannot be: a promised message that is gone or changed, one that
is there twice, an offset that went back, a queue with two owners. It knows no bytes, files or network.
The states of a message are drawn in `attempts`.
"""

from __future__ import annotations

from collections.abc import Sequence

from roquet.sim.attempts import Fate, Seen, Survives, Try, Wrong

SAVE_WINDOW_S = 7.0  # offsets are saved every 5 s by a ticker of 1 s

QueueKey = tuple[str, int]
PositionKey = tuple[str, str, int]


class ModelBroker:
    """What one broker has promised so far."""

    def __init__(self, sees: Survives, checks_properties: bool = True) -> None:
        self.sees = sees  # what a message that readers can see survives
        self.checks_properties = checks_properties  # whether records carry a checksum of all their bytes
        self.tries: dict[bytes, Try] = {}
        self.queues: dict[QueueKey, dict[int, Try]] = {}
        self.deleting: list[str] = []  # topics with a deletion under way
        self.unanswered: list[str] = []  # and those whose deletion may still happen in this life
        self.positions: dict[PositionKey, list[tuple[float, frozenset[int | None]]]] = {}
        self.locks: dict[PositionKey, tuple[str, float]] = {}
        self.log_min_offset = 0

    # --- messages

    def begin(self, topic: str, queue_id: int, tag: str, keys: str, body: bytes) -> Try:
        queue = self.queues.get((topic, queue_id), {})
        floor = max((at for at, other in queue.items() if other.fate is Fate.STORED), default=-1)
        attempt = self.tries[body] = Try(topic, queue_id, tag, keys, body, floor)
        if topic in self.deleting or topic in self.unanswered:
            attempt.fate = Fate.LOOSE
        return attempt

    def stored(
        self, attempt: Try, queue_offset: int, log_offset: int, survives: Survives, now: float
    ) -> None:
        """Take the answer to a send."""
        if attempt.fate is Fate.LOOSE:
            return
        if attempt.fate is Fate.STORED and attempt.queue_offset != queue_offset:
            raise Wrong(f"{attempt} was acknowledged at {queue_offset}")
        if queue_offset <= attempt.floor:
            raise Wrong(f"{attempt} got offset {queue_offset}, but {attempt.floor} was taken before it began")
        self._place(attempt, queue_offset, log_offset, survives, now)

    def refused(self, attempt: Try) -> None:
        """Take an answer that says: it will never be stored."""
        if attempt.fate is Fate.STORED:
            raise Wrong(f"{attempt} was refused, but a reader has seen it")
        if attempt.fate is Fate.TRIED:
            attempt.fate = Fate.REFUSED

    def seen(self, seen: Seen, now: float) -> Try:
        """Take what a reader got."""
        attempt = self.tries.get(seen.body)
        if attempt is None:
            raise Wrong(f"nobody ever sent {seen}")
        if attempt.fate in (Fate.LOOSE, Fate.TRIED) and not self.checks_properties:
            # Records have a checksum of the body alone: a power cut may tear the properties of what was
            # not yet synced and so, in SYNC mode, never acknowledged; nobody can tell.
            attempt.tag, attempt.keys = seen.tag, seen.keys
        if (attempt.topic, attempt.tag, attempt.keys) != (seen.topic, seen.tag, seen.keys):
            raise Wrong(f"{attempt} came back as {seen}")
        if attempt.queue_id not in (seen.queue_id, -1):
            raise Wrong(f"{attempt} came back in queue {seen.queue_id}")
        if attempt.fate is Fate.LOOSE and attempt.queue_offset < 0:
            return attempt
        if attempt.fate in (Fate.REFUSED, Fate.GONE):
            raise Wrong(f"{attempt} was read at {seen.queue_offset}")
        if attempt.queue_offset not in (seen.queue_offset, -1):
            raise Wrong(f"{attempt} was read at offset {seen.queue_offset}")
        self._place(attempt, seen.queue_offset, seen.log_offset, self.sees, now)
        attempt.store_ms = seen.store_ms
        attempt.queue_id = seen.queue_id
        return attempt

    def _place(
        self, attempt: Try, queue_offset: int, log_offset: int, survives: Survives, now: float
    ) -> None:
        queue = self.queues.setdefault((attempt.topic, attempt.queue_id), {})
        other = queue.get(queue_offset)
        if other is not None and other is not attempt and other.fate is Fate.STORED:
            raise Wrong(f"{attempt} took the place of {other}")
        queue[queue_offset] = attempt
        if attempt.fate is not Fate.STORED:
            attempt.stored_at = now
        attempt.fate, attempt.queue_offset, attempt.log_offset = Fate.STORED, queue_offset, log_offset
        attempt.survives = max(attempt.survives, survives)

    def expires(self, log_min_offset: int) -> None:
        """Let go of what was deleted for its age or for space; a power cut may bring it back."""
        self.log_min_offset = max(self.log_min_offset, log_min_offset)

    def promised(self, key: QueueKey) -> dict[int, Try]:
        """Return what must be readable in a queue now."""
        return {
            offset: attempt
            for offset, attempt in self.queues.get(key, {}).items()
            if attempt.fate is Fate.STORED and attempt.log_offset >= self.log_min_offset
        }

    def is_visible(self, attempt: Try) -> bool:
        """Return whether readers must find it now; what was answered before its sync may come later."""
        is_kept = attempt.fate is Fate.STORED and attempt.log_offset >= self.log_min_offset
        return is_kept and attempt.survives >= self.sees

    def audit(
        self, key: QueueKey, promised: dict[int, Try], found: Sequence[Seen], flushed_offset: int, now: float
    ) -> None:
        """Compare all of a queue, read after a start, with what was promised before; nothing stays loose."""
        present = {seen.queue_offset: seen.body for seen in found}
        for offset, attempt in promised.items():
            is_due = attempt.fate is Fate.STORED and attempt.log_offset >= self.log_min_offset
            if is_due and present.get(offset) != attempt.body:
                there = present.get(offset, b"nothing")[:16]
                raise Wrong(f"{attempt} is lost: it survives {attempt.survives.name}, there is {there!r}")
        for seen in found:
            attempt = self.seen(seen, now)
            if attempt.fate is Fate.STORED and seen.log_offset < flushed_offset:
                attempt.survives = Survives.POWER_CUT
        for offset, attempt in list(self.queues.get(key, {}).items()):
            if attempt.fate is Fate.LOOSE and present.get(offset) != attempt.body:
                attempt.fate = Fate.GONE
                del self.queues[key][offset]

    def deletes(self, topic: str) -> None:
        """Let go of all that was promised for a topic, when its deletion begins and when it is answered."""
        for attempt in self.tries.values():
            if attempt.topic == topic and attempt.fate is not Fate.GONE:
                attempt.fate, attempt.queue_offset = Fate.LOOSE, -1
        for key in [key for key in self.queues if key[0] == topic]:
            del self.queues[key]

    # --- deaths

    def died(self, now: float, power_cut: bool, durable_before: float, saved_before: float) -> None:
        """Drop the promises that such an end need not keep.

        `durable_before`: what was stored before is on disk; `saved_before`: offsets set before are.
        """
        self.locks.clear()
        self.unanswered.clear()
        for attempt in self.tries.values():
            weak = attempt.survives < Survives.POWER_CUT and attempt.stored_at >= durable_before
            if power_cut and attempt.fate is Fate.STORED and weak:
                attempt.fate, attempt.survives = Fate.LOOSE, Survives.NOTHING
        for key, history in self.positions.items():
            at = max((n for n, (since, _) in enumerate(history) if since < saved_before), default=-1)
            possible = frozenset().union(*(values for _, values in history[max(at, 0) :]))
            self.positions[key] = [(now, possible | {None} if at < 0 else possible)]

    # --- offsets and locks

    def committing(self, key: PositionKey, queue_offset: int, now: float) -> None:
        """Note that a commit is under way: both values are possible until it is answered."""
        history = self.positions.setdefault(key, [(-1.0, frozenset({None}))])
        history.append((now, history[-1][1] | {queue_offset}))

    def committed(self, key: PositionKey, queue_offset: int | None, now: float) -> None:
        """Take the answer to a commit or to a question for the offset."""
        history = self.positions.get(key)
        if history is None:
            return
        if queue_offset not in history[-1][1]:
            possible = sorted(history[-1][1], key=str)
            raise Wrong(f"the offset of {key} is {queue_offset}, but only {possible} were committed")
        history.append((now, frozenset({queue_offset})))

    def locked(self, key: PositionKey, client: str, asked_at: float, live_s: float, now: float) -> None:
        holder, until = self.locks.get(key, ("", 0.0))
        if holder not in ("", client) and until > now:
            raise Wrong(f"{client} locked {key}, which {holder} holds until {until:.3f}")
        self.locks[key] = (client, asked_at + live_s)

    def unlocked(self, key: PositionKey, client: str) -> None:
        if self.locks.get(key, ("", 0.0))[0] == client:
            del self.locks[key]
