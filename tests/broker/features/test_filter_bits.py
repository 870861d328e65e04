"""Selectors whose verdicts are noted when a message is stored: Apache's own files, and life in our broker.

`tests/golden/extension` holds stores of an Apache broker with `enableConsumeQueueExt` and
`enableCalcFilterBitMap`, and what it answered to its groups.
"""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roquet.broker.features.filter.bloom import bloom_for
from roquet.broker.features.filter.table import FilterTable
from roquet.client import Plain, connect
from roquet.model.message import Entry, Host
from roquet.sim.disk import SimDisk
from roquet.sim.world import World
from roquet.store.format.queue_ext import is_address
from roquet.store.settings import FlushMode, StoreSettings
from roquet.store.store import Store
from roquet.wire.requests.client import Heartbeat
from roquet.wire.requests.pull import Pull, Pulled
from roquet.wire.requests.query import QueryQueue
from tests.broker.features.test_filter import heartbeat, pull, send, subscription
from tests.broker.stage import BROKER, BROKER_HOST, NAMESRV, Stage

GOLDEN = Path(__file__).parents[2] / "golden" / "extension"
NAMES = ("stopped", "killed")
FIRST = 5
"""Messages of queue 0 that were stored before the groups came."""

NOTED: dict[str, Any] = {"property_filter": True, "filter_bit_map": True}
EXTENDED: dict[str, Any] = {"queue_ext_enable": True, "queue_ext_file_size_bytes": 1_000}
THEIRS: dict[str, Any] = {
    "log_file_size_bytes": 65_536,
    "queue_file_size_bytes": 2_000,
    "index_slot_count": 100,
    "index_entry_count": 400,
}


class Expected(msgspec.Struct):
    """What the capture wrote down beside the files."""

    selectors: dict[str, str]
    pulled: dict[str, list[int]]
    shown: dict[str, dict[str, Any]]


def unpack(disk: SimDisk, name: str) -> Expected:
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        for member in archive:
            path = "/store/" + member.name.partition("/")[2]
            if member.isfile():
                disk.make_dirs(path.rpartition("/")[0])
                content = archive.extractfile(member)
                assert content is not None
                disk.write_file(path, content.read())
    return msgspec.json.decode((GOLDEN / f"{name}.expected.json").read_bytes(), type=Expected)


def files_below(disk: SimDisk, folder: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for item in disk.list_dir(folder):
        path = f"{folder}/{item.name}"
        found |= files_below(disk, path) if item.is_dir else {path: disk.read_file(path)}
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
def test_groups_get_from_apaches_store_what_apache_gave_them(name: str, is_on: bool) -> None:
    stage = Stage(store=THEIRS | EXTENDED | {"queue_ext_enable": is_on}, **NOTED)
    expected = unpack(stage.world.disk(BROKER_HOST), name)

    async def scenario(stage: Stage, client: Plain) -> None:
        for group, selector in expected.selectors.items():
            version = 1_700_000_000_000
            beat = heartbeat(subscription("Selected", selector, version=version), group=group)
            await client.ask(BROKER, Heartbeat(), beat)
            assert await offsets(client, group, version) == expected.pulled[group]
            answer = await client.ask(BROKER, QueryQueue("Selected", 0, 0, 100, group))
            shown = msgspec.json.decode(answer.body)
            assert comparable(shown, is_on) == comparable(expected.shown[group], is_on)

    stage.play(scenario)


def comparable(shown: dict[str, Any], is_on: bool) -> dict[str, Any]:
    """Leave out what a start from Apache's files changes: it files the last records of the log again.

    Without extensions they get none; with them, those stored before the groups came get bits, too.
    """
    if not is_on:
        return {name: value for name, value in shown.items() if name != "queueData"}
    for line in shown["queueData"][:FIRST]:
        line.pop("bitMap", None)
        line.pop("extendDataJson")
    return shown


async def offsets(client: Plain, group: str, version: int) -> list[int]:
    """Pull a whole queue as a member of a group; return the queue offsets of what came."""
    found: list[int] = []
    at = 0
    while True:
        request = Pull(group, "Selected", 0, at, 32, 0, 0, 0, version, None, "SQL92")
        answer = await client._dialer.call(BROKER, request, 30)
        pulled = Pulled.decode(answer.ext)
        body, place = answer.body, 0
        while place < len(body):
            found.append(int.from_bytes(body[place + 20 : place + 28], "big"))
            place += int.from_bytes(body[place : place + 4], "big")
        at = pulled.next_begin_offset
        if at >= pulled.max_offset:
            return found


@pytest.mark.parametrize("name", NAMES)
def test_rebuilt_extensions_are_byte_for_byte_what_apache_wrote(name: str) -> None:
    world = World(1)
    disk = world.disk("broker")
    unpack(disk, name)
    folders = ("/store/consumequeue", "/store/consumequeue_ext")
    wanted = {path: data for folder in folders for path, data in files_below(disk, folder).items()}
    assert len(wanted) > 7
    for folder in folders:
        disk.remove_tree(folder)
    table = FilterTable(bloom_for(20, 32))
    stored = msgspec.json.decode(disk.read_file("/store/config/consumerFilter.json"))
    table.load(stored, 0)
    found = [table.find(group, "Selected") for group in ("golden_red", "golden_many")]
    born_ms = max(entry.born_time for entry, _ in filter(None, found))

    def bits_of(entry: Entry) -> bytes:
        # The groups came after the first messages: Apache noted nothing of those.
        return table.bits_of(entry.topic, entry.properties) if entry.store_ms > born_ms else b""

    async def main() -> None:
        settings = StoreSettings("/store", **(THEIRS | EXTENDED))
        here = Host(bytes([127, 0, 0, 1]), 20_911)
        store = Store(disk, world.clock("broker"), settings, here, world.loop.call_soon, 1)
        store.note_bits(bits_of)
        store.open()
        await store.close()

    world.run(main())
    rebuilt = {path: data for folder in folders for path, data in files_below(disk, folder).items()}
    assert rebuilt.keys() == wanted.keys()
    for path, data in wanted.items():
        assert rebuilt[path] == data, path


@pytest.mark.parametrize("power_cut", [False, True])
def test_verdicts_of_a_selector_outlive_the_broker_and_never_hide_a_message(power_cut: bool) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await send(client, b"early", n="7")
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n > 5")))
        await stage.pass_time(15)
        for number in range(40):
            await send(client, b"%d" % number, n=str(number % 10))
        sixes = [b"%d" % number for number in range(40) if number % 10 > 5]
        assert await everything(client) == [b"early", *sixes]
        await stage.pass_time(2)
        broker = await stage.restart(power_cut=power_cut)
        async with connect(NAMESRV, stage.world.ports("127.0.0.6")) as fresh:
            await stage.pass_time(30)
            await fresh.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n > 5")))
            assert await everything(fresh) == [b"early", *sixes]
            entries = await broker.store.queue_units("t", 0, 0, 100)
            assert all(is_address(entry.tag_code) and unit is not None for entry, unit in entries)
            # Another selector: the bits that are there say nothing about it.
            await fresh.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n <= 5", version=2)))
            for number in range(40):
                await send(fresh, b"%d" % number, n=str(number % 10))
            others = [b"%d" % number for number in range(40) if number % 10 <= 5]
            assert await everything(fresh, version=2) == others * 2

    stage = Stage(store={**EXTENDED, "flush_mode": FlushMode.SYNC}, **NOTED)
    stage.play(scenario)


async def everything(client: Plain, version: int = 1) -> list[bytes]:
    found: list[bytes] = []
    at, is_new = 0, True
    while is_new:
        bodies, behind = await pull(client, at=at, version=version)
        found += bodies
        at, is_new = behind, behind > at
    return found


def test_a_clock_that_goes_back_hides_nothing_from_a_new_selector() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n < 0"), group="others"))
        await stage.pass_time(1)
        await send(client, b"before", n="9")
        stage.world.clock(BROKER_HOST).jump_ms(-3_600_000)
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n > 5")))
        await send(client, b"at once", n="9")
        await stage.pass_time(1)
        await send(client, b"after", n="9")
        await send(client, b"small", n="1")
        assert await everything(client) == [b"before", b"at once", b"after"]

    Stage(store=EXTENDED, **NOTED).play(scenario)


def test_noting_begins_and_ends_with_its_setting() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        broker = stage.broker
        assert broker is not None
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n > 5")))
        await stage.pass_time(1)
        for is_on in (False, True, False):
            broker.apply(replace(stage.settings, filter_bit_map=is_on), stage.store_settings)
            await send(client, b"big", n="9")
            await send(client, b"small", n="1")
        units = [unit for _, unit in await broker.store.queue_units("t", 0, 0, 10) if unit is not None]
        assert [len(unit.bits) for unit in units] == [0, 0, 14, 14, 0, 0]
        assert [any(unit.bits) for unit in units[2:4]] == [True, False]
        assert await everything(client) == [b"big"] * 3

    Stage(store=EXTENDED, **NOTED).play(scenario)
