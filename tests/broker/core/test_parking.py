"""Parked pulls: woken by the right arrival, by time, and never twice. On the virtual clock."""

from __future__ import annotations

import asyncio

from roquet.broker.core.parking import Parking
from roquet.model.message import Entry
from roquet.ports import Clock
from roquet.sim.world import World


def entry(topic: str, queue_id: int, queue_offset: int, tag_code: int = 0) -> Entry:
    return Entry(0, 100, topic, queue_id, queue_offset, tag_code, 0, 0, 0, (), b"")


async def after(clock: Clock, seconds: float) -> None:
    await clock.sleep_until(clock.monotonic() + seconds)


def run(scenario: object) -> None:
    with World(1) as world:
        clock = world.ports("broker").clock

        async def main() -> None:
            await scenario(clock)  # type: ignore[operator]

        world.run(main())


def test_an_arrival_wakes_who_waits_for_it_and_nobody_else() -> None:
    async def scenario(clock: Clock) -> None:
        parking, woken = Parking(clock), []
        for name, args in {
            "match": ("t", 0, 5, None),
            "other queue": ("t", 1, 5, None),
            "further on": ("t", 0, 6, None),
            "tag": ("t", 0, 5, frozenset({7})),
            "other tag": ("t", 0, 5, frozenset({8})),
        }.items():
            assert parking.park(*args, 10_000, lambda late, name=name: woken.append((name, late)))  # type: ignore[misc]
        parking.arrived([entry("t", 0, 5, 7)])
        assert woken == [("match", False), ("tag", False)]
        assert parking.count == 3
        await after(clock, 10.1)
        assert sorted(woken[2:]) == [("further on", True), ("other queue", True), ("other tag", True)]
        assert parking.count == 0

    run(scenario)


def test_time_is_up_to_the_millisecond_and_only_once() -> None:
    async def scenario(clock: Clock) -> None:
        parking, woken = Parking(clock), []
        start = clock.monotonic()
        parking.park("t", 0, 0, None, 1_500, lambda late: woken.append((clock.monotonic() - start, late)))
        await after(clock, 20)
        parking.arrived([entry("t", 0, 0)])
        assert len(woken) == 1
        assert round(woken[0][0], 3) == 1.5 and woken[0][1]

    run(scenario)


def test_a_full_lot_says_no() -> None:
    async def scenario(clock: Clock) -> None:
        parking = Parking(clock, places_max=1)
        assert parking.park("t", 0, 0, None, 1_000, lambda late: None)
        assert not parking.park("t", 0, 0, None, 1_000, lambda late: None)
        parking.wake_all()
        assert parking.park("t", 0, 0, None, 1_000, lambda late: None)
        await asyncio.sleep(0)
        parking.wake_all()

    run(scenario)
