"""Which brokers were heard of lately, over which link, and who has been silent for too long.

Place in the flow: `names.table` files every registration and heartbeat here and asks who has expired.

    register ─▶ alive ─┬─ heartbeat (322, 904) ─▶ alive
                       ├─ silent for longer than its time-out ─▶ expired   (scan)
                       └─ its link closed ─▶ gone at once

Pure: the time is an argument, in milliseconds of a clock that never goes back, so a wall clock that is set
forward does not empty the tables. A link is any hashable value. Reference: BrokerLiveInfo, Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from roquet.model.topic import DataVersion

TIMEOUT_MS: Final = 120_000
"""How long a broker may be silent unless its registration says otherwise."""


class Place(NamedTuple):
    """Where one broker process is: liveness is kept by cluster and address."""

    cluster: str
    address: str


class Live(NamedTuple):
    """The latest sign of life of one broker process."""

    heard_ms: int
    timeout_ms: int
    version: DataVersion
    link: Hashable
    broker_name: str
    ha_address: str


class Liveness:
    """Signs of life by place, and places by link."""

    __slots__ = ("_live", "_places")

    def __init__(self) -> None:
        self._live: dict[Place, Live] = {}
        self._places: dict[Hashable, dict[Place, None]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def get(self, place: Place) -> Live | None:
        return self._live.get(place)

    def file(self, place: Place, live: Live) -> None:
        """Note a registration; the place belongs to its newest link alone."""
        self.drop(place)
        self._live[place] = live
        self._places.setdefault(live.link, {})[place] = None

    def refresh(self, place: Place, now_ms: int) -> None:
        """Note a heartbeat; one of an unknown broker means nothing."""
        live = self._live.get(place)
        if live is not None:
            self._live[place] = live._replace(heard_ms=now_ms)

    def drop(self, place: Place) -> None:
        """Forget a place."""
        live = self._live.pop(place, None)
        if live is not None:
            places = self._places[live.link]
            del places[place]
            if not places:
                del self._places[live.link]

    def of_link(self, link: Hashable) -> dict[Place, Live]:
        """Return the brokers that registered over a link and over no newer one."""
        return {place: self._live[place] for place in self._places.get(link, ())}

    def expired(self, now_ms: int) -> dict[Place, Live]:
        """Return the brokers that have been silent for longer than they said they would be."""
        return {place: live for place, live in self._live.items() if live.heard_ms + live.timeout_ms < now_ms}
