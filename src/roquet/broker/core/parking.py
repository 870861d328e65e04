"""Pulls that found nothing wait here until a message arrives for them or their time is up.

    pull ─▶ nothing yet ─▶ park(queue, offset, match) ──┬─ arrival that matches ─▶ wake
                                                        └─ deadline            ─▶ wake (timed out)

A request is woken once and then gone; running the pull again is the waker's affair. Bounded: when the
lot is full, `park` says no and the client asks again by itself. Knows nothing of pulls or connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from roquet.model.match import Match
from roquet.model.message import Entry
from roquet.ports import Clock, Timer

PLACES_MAX: Final = 100_000
"""As many as Apache's pull queue holds."""

Wake = Callable[[bool], None]
"""Called with whether the time was up."""


class _Place:
    __slots__ = ("key", "match", "queue_offset", "timer", "wake")

    def __init__(self, key: tuple[str, int], queue_offset: int, match: Match, wake: Wake) -> None:
        self.key = key
        self.queue_offset = queue_offset
        self.match = match
        self.wake = wake
        self.timer: Timer | None = None

    def wants(self, entry: Entry) -> bool:
        match = self.match
        if self.queue_offset > entry.queue_offset:
            return False
        if match is None:
            return True
        return entry.tag_code in match if isinstance(match, frozenset) else match(entry.properties)


class Parking:
    """The parked pulls of one broker, by queue."""

    def __init__(self, clock: Clock, places_max: int = PLACES_MAX) -> None:
        self._clock = clock
        self._places_max = places_max
        self._by_queue: dict[tuple[str, int], dict[_Place, None]] = {}
        self.count = 0

    def park(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        match: Match,
        timeout_ms: int,
        wake: Wake,
    ) -> bool:
        """Keep a request until a message at or after `queue_offset` is wanted.

        Returns False when there is no place left.
        """
        if self.count >= self._places_max:
            return False
        place = _Place((topic, queue_id), queue_offset, match, wake)
        self._by_queue.setdefault(place.key, {})[place] = None
        self.count += 1
        place.timer = self._clock.call_at(
            self._clock.monotonic() + timeout_ms / 1000, self._time_is_up, place
        )
        return True

    def arrived(self, entries: Iterable[Entry]) -> None:
        """Wake whoever waits for one of the entries."""
        if not self.count:
            return
        for entry in entries:
            places = self._by_queue.get((entry.topic, entry.queue_id))
            if not places:
                continue
            for place in [place for place in places if place.wants(entry)]:
                self._leave(place)
                place.wake(False)

    def wake_all(self) -> None:
        """Wake everybody as if their time were up: the broker stops."""
        for places in list(self._by_queue.values()):
            for place in list(places):
                self._leave(place)
                place.wake(True)

    def _time_is_up(self, place: _Place) -> None:
        self._leave(place)
        place.wake(True)

    def _leave(self, place: _Place) -> None:
        if place.timer is not None:
            place.timer.cancel()
        places = self._by_queue[place.key]
        del places[place]
        self.count -= 1
        if not places:
            del self._by_queue[place.key]
