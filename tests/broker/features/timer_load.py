"""Many timed messages on virtual time and a real disk: how much memory do they take, and are they on time?

    python -m tests.broker.features.timer_load COUNT FOLDER

Appends COUNT messages that are due over the next ten minutes, lets the ten minutes pass, and prints one JSON
line. A program of its own, so that its anonymous memory is the timer's and the store's and nobody else's. The
disk does its work at once and never syncs: a thread would not know of virtual time.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from roquet.broker.core.pipeline import Pipeline
from roquet.broker.features.timer.feature import Timer
from roquet.model.message import Draft, Entry, Host, format_properties, parse_properties
from roquet.model.status import Appended
from roquet.ports import File
from roquet.runtime.disk import OsDisk
from roquet.sim.world import World
from roquet.store.settings import StoreSettings
from roquet.store.store import Store

MINUTES = 10
SPREAD_MS = MINUTES * 60_000
AT_ONCE = 500
HOST = Host(b"\x7f\0\0\1", 10911)


class InlineFile:
    """A file whose waiting calls do not wait."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.path, self.size_bytes = file.path, file.size_bytes
        self.write_at, self.read_now, self.close = file.write_at, file.read_now, file.close
        self.try_read: Callable[[int, int], bytes | None] = file.read_now

    def try_read_many(self, places: Sequence[tuple[int, int]]) -> bytearray:
        return bytearray().join(self._file.read_now(position, size) for position, size in places)

    async def read(self, position: int, size: int) -> bytes:
        return self._file.read_now(position, size)

    async def sync(self) -> None:
        """Nothing: no power is cut here."""

    def sync_now(self) -> None:
        """Nothing either."""

    async def reserve(self, position: int, size: int) -> None:
        """Nothing: holes are filled as they are written."""


class InlineDisk(OsDisk):
    """The real disk without its threads."""

    def open(self, path: str, size_bytes: int | None = None) -> Any:
        return InlineFile(super().open(path, size_bytes))

    def sync_dir(self, path: str) -> None:
        """Nothing: no power is cut here."""


class NoStats:
    def put(self, topic: str, queue_id: int, count: int, size_bytes: int) -> None:
        """Nobody counts."""


class Lateness:
    """Sees every delivery: how many came, how late the latest was, whether one was early."""

    def __init__(self) -> None:
        self.count = 0
        self.latest_ms = 0
        self.earliest_ms = SPREAD_MS

    def on_entries(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.topic == "timed":
                properties = parse_properties(entry.properties.decode())
                late_ms = int(properties["TIMER_DEQUEUE_MS"]) - int(properties["TIMER_DELIVER_MS"])
                self.count += 1
                self.latest_ms = max(self.latest_ms, late_ms)
                self.earliest_ms = min(self.earliest_ms, late_ms)


def anonymous_bytes() -> int:
    """Return the anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status does not tell RssAnon")


async def load(world: World, count: int, folder: str) -> dict[str, Any]:
    clock, disk, rng = world.clock("127.0.0.3"), InlineDisk(), random.Random(1)
    settings = StoreSettings(folder, message_index_enable=False, log_file_size_bytes=256 * 1024 * 1024)
    store = Store(disk, clock, settings, HOST, lambda call: asyncio.get_running_loop().call_soon(call))
    pipeline, seen = Pipeline(store), Lateness()
    timer = Timer(
        clock, disk, store, pipeline, NoStats(), None, "broker-a", False, lambda: settings  # type: ignore[arg-type]
    )  # fmt: skip
    pipeline.hooks = (timer.before_append,)
    store.listeners += [timer.on_entries, seen.on_entries]
    store.open()
    await store.start()
    running = asyncio.get_running_loop().create_task(timer.run())
    base, peak = anonymous_bytes(), 0

    start_ms = clock.now_ms()
    for first in range(0, count, AT_ONCE):
        drafts = []
        for number in range(first, min(first + AT_ONCE, count)):
            due_ms = start_ms + 5_000 + rng.randrange(SPREAD_MS)
            properties = {"UNIQ_KEY": f"{number:032X}", "TIMER_DELIVER_MS": str(due_ms)}
            text = format_properties(properties).encode()
            draft = Draft("timed", number % 4, b"x" * 100, text, 0, 0, start_ms, HOST)
            drafts.append(pipeline.prepare(draft, properties).draft)
        stored: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        pipeline.append(drafts, stored.set_result)
        assert (await stored).log_offsets
        peak = max(peak, anonymous_bytes())
    while seen.count < count and clock.now_ms() < start_ms + SPREAD_MS + 30_000:
        await clock.sleep_until(clock.monotonic() + 1)
        timer.on_tick(clock.monotonic())
        peak = max(peak, anonymous_bytes())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await store.close()
    disk.close()
    return {
        "delivered": seen.count,
        "earliest_ms": seen.earliest_ms,
        "latest_ms": seen.latest_ms,
        "grown_bytes": peak - base,
    }


def main() -> None:
    count, folder = int(sys.argv[1]), sys.argv[2]
    with World(1) as world:
        print(json.dumps(world.run(load(world, count, folder), limit_s=7_200)))


if __name__ == "__main__":
    main()
