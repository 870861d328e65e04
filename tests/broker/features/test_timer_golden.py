"""A store with timed messages that a killed Apache broker left: what waits in it is listed and delivered."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from roquet.broker.features.timer import Timer, Wanted
from roquet.client import Plain
from roquet.sim.clock import START_MS
from roquet.store.format.timer_check import decode_check
from tests.broker.stage import BROKER_HOST, Stage

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "timer"
EXPECTED: dict[str, Any] = json.loads((GOLDEN / "killed.expected.json").read_text())
PAGE = 4096
SMALL = {
    "log_file_size_bytes": 65_536,
    "queue_file_size_bytes": 2_000,
    "index_slot_count": 100,
    "index_entry_count": 400,
    "timer_log_file_size_bytes": 1_000,
    "file_reserved_hours": 10_000,
}


def staged() -> Stage:
    """Return a stage whose broker finds Apache's files, at the time when they were left."""
    stage = Stage(store=SMALL)
    disk = stage.world.disk(BROKER_HOST)
    disk.make_dirs("/store")
    with tarfile.open(GOLDEN / "killed.tar.xz") as archive:
        for member in archive:
            path = "/store" + member.name.removeprefix("killed")
            opened = archive.extractfile(member)
            if opened is None:
                disk.make_dirs(path)
                continue
            data = opened.read()
            file = disk.open(path, len(data))
            for at in range(0, len(data), PAGE):
                if any(page := data[at : at + PAGE]):
                    file.write_at(at, page)
            file.sync_now()
            file.close()
            disk.sync_dir(path.rpartition("/")[0])
    stage.world.clock(BROKER_HOST).jump_ms(EXPECTED["killed_ms"] - START_MS)
    return stage


def timer_of(stage: Stage) -> Timer:
    assert stage.broker is not None
    hooks = [hook.__self__ for hook in stage.broker._hooks.run]  # type: ignore[attr-defined]
    (timer,) = [feature for feature in hooks if isinstance(feature, Timer)]
    return timer


def key(message: dict[str, Any]) -> tuple[str, int, int, str]:
    return message["topic"], message["queue_id"], message["out_ms"], message["unique_key"]


async def listed(stage: Stage, wanted: Wanted) -> list[tuple[str, int, int, str]]:
    found = timer_of(stage).pending(wanted)
    return sorted([(one.topic, one.queue_id, one.out_ms, one.unique_key) async for one in found])


def test_what_waits_is_listed_by_topic_and_time() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await stage.pass_time(3)
        waiting = sorted(map(key, EXPECTED["waiting"]))
        assert await listed(stage, Wanted()) == waiting
        assert await listed(stage, Wanted("Other")) == [one for one in waiting if one[0] == "Other"]
        middle_ms = waiting[20][2]
        soon = [one for one in waiting if one[2] < middle_ms]
        assert await listed(stage, Wanted(end_ms=middle_ms)) == soon
        late = [one for one in waiting if one[2] >= middle_ms and one[0] == "Timed"]
        assert await listed(stage, Wanted("Timed", middle_ms)) == late

    staged().play(scenario)


async def bodies(client: Plain) -> list[str]:
    found = []
    for topic in ("Timed", "Other"):
        for queue_id in range(4):
            offset = 0
            while messages := await client.read(topic, queue_id, offset):
                found += [message.body.decode() for message in messages]
                offset += len(messages)
    return sorted(found)


def test_all_that_waits_comes_once_at_its_time_over_one_more_crash() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        clock = stage.world.clock(BROKER_HOST)
        before = sorted(message["body"] for message in EXPECTED["delivered"])
        await stage.pass_time(3)
        assert await bodies(client) == before
        soon = [message for message in EXPECTED["waiting"] if message["out_ms"] < clock.now_ms() + 7_200_000]
        assert len(soon) == 41
        clock.jump_ms(min(message["out_ms"] for message in soon) - clock.now_ms())
        await stage.pass_time(0.5)
        assert await bodies(client) == before
        await stage.pass_time(1.2)
        await stage.restart(power_cut=False)
        await stage.pass_time(10)
        assert await bodies(client) == sorted(before + [message["body"] for message in soon])
        clock.jump_ms(EXPECTED["waiting"][-1]["out_ms"] - 1_800_000 - clock.now_ms())
        await stage.pass_time(3)
        assert len(await bodies(client)) == len(before) + 41
        clock.jump_ms(1_800_000)
        await stage.pass_time(3)
        assert len(await bodies(client)) == len(before) + 42

    staged().play(scenario)


def test_the_checkpoint_we_leave_is_one_that_apache_can_go_on_from() -> None:
    """Behind the last unit, with the queue offset in both places: Apache takes the smaller one."""

    async def scenario(stage: Stage, client: Plain) -> None:
        await stage.pass_time(3)
        assert stage.broker is not None
        await stage.broker.resign()
        disk = stage.world.disk(BROKER_HOST)
        check, _ = decode_check(disk.read_file("/store/config/timercheck"))
        assert check.queue_offset == check.master_queue_offset
        assert check.queue_offset == stage.broker.store.max_offset("rmq_sys_wheel_timer", 0)
        assert check.read_ms <= stage.world.clock(BROKER_HOST).now_ms() < check.read_ms + 2_000
        assert check.log_position % 1_000 % 52 == 0
        assert disk.stat("/store/timerwheel").size_bytes == 38_707_200

    staged().play(scenario)
