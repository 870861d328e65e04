"""Stores that real brokers wrote, Apache's and ours: running, killed and stopped, whole and damaged.

What is read from the files must be what a consumer gets, in every column. Messages come from Apache's Java
producer (every kind and compression) and from ours; the tests of a broker go on with the same store, from
running to damaged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

import roquet.store_reader as reader
import roquet.sync
from roquet.client.compression import Compression
from roquet.client.errors import RoquetError
from roquet.client.message import Outgoing
from tests.peers.java import JavaClient, fresh_name
from tests.spark.shop import BROKER, Shop, as_java, queue, wait_for
from tests.store_reader.real_store import FILE_BYTES, RealStore, real_store

pytestmark = pytest.mark.java

Row = dict[str, Any]
TOPIC = "orders"
KINDS = fresh_name("kinds")
SYSTEM = {"RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"}
"""Topics in which brokers keep what is not delivered yet."""


@pytest.fixture(scope="module", params=["ours", "apache"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealStore]:
    with real_store(request.param, tmp_path_factory.mktemp("real")) as store:
        yield store


def of_files(path: Path, *topics: str, **how: Any) -> list[Row]:
    """Return the rows of a store, queue by queue."""
    return in_order(
        row
        for batch in reader.read(str(path), topics=topics, broker=BROKER, **how)
        for row in batch.to_pylist()
    )


def of_broker(store: RealStore, *topics: str) -> list[Row]:
    """Return what consumers of the topics get, queue by queue."""
    with Shop(store.namesrv) as shop:
        return in_order(shop.read(subscribe=",".join(topics)).to_pylist())


def in_order(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: (row["topic"] or "", row["queue_id"] or 0, row["queue_offset"] or 0))


def test_a_running_store(store: RealStore, tmp_path: Path) -> None:
    seen = java_kinds(store, tmp_path)
    with Shop(store.namesrv) as shop:
        shop.topic(TOPIC, 2)
        every_kind_of_ours(store, shop)
        sent = len(shop.sent)
    rows = of_files(store.path, TOPIC, KINDS)
    assert rows == of_broker(store, TOPIC, KINDS)
    assert as_java(row for row in rows if row["topic"] == KINDS) == seen
    assert {row["sys_flag"] >> 8 & 7 for row in rows if row["sys_flag"] & 1} == {1, 2, 3}, "LZ4, ZSTD, ZLIB"
    mine = [row for row in rows if row["topic"] == TOPIC]
    assert len(mine) == sent + 20, "neither what is delayed nor what is not committed"
    assert not {b"much later", b"undecided", b"rolled back"} & {row["body"] for row in mine}
    topics = {row["topic"] for row in of_files(store.path)}
    assert topics >= {TOPIC, KINDS} | SYSTEM, "without a choice all that the log holds"


def java_kinds(store: RealStore, tmp_path: Path) -> dict[str, Any]:
    """Send what Apache's client can send; returns what its consumer got, by mark."""
    with JavaClient("5.5.0", tmp_path / "client") as client:

        def java(step: str, **arguments: int) -> dict[str, Any]:
            return client.run(f"mix-{step}", store.namesrv, topic=KINDS, group=f"G-{KINDS}", **arguments)

        java("open", queues=4)
        try:
            marks = set(java("kinds")["marks"])
            java("join")
            wait_for(lambda: set(java("state")["seen"]) == marks, "the Java consumer has them all")
            seen = java("state")["seen"]
            assert isinstance(seen, dict)
            return seen
        finally:
            java("close")


def every_kind_of_ours(store: RealStore, shop: Shop) -> None:
    """Send 20 messages in a batch, some of each compression, and some that nobody may see."""
    compressions: tuple[Compression, ...] = ("zlib", "lz4", "zstd")
    for compression in compressions:
        with roquet.sync.Producer(store.namesrv, compression=compression, timeout=20.0) as producer:
            producer.send(TOPIC, b"long " * 5000, queue=queue(TOPIC), keys=("a", "b"), properties={"x": "蓝"})
            shop.sent.append((TOPIC, 0, len(shop.sent)))
    with roquet.sync.Producer(store.namesrv, timeout=20.0) as producer:
        producer.send_batch(TOPIC, [Outgoing(topic=TOPIC, body=b"%d" % n, tag="T") for n in range(20)])
        producer.send(TOPIC, b"much later", delay=timedelta(hours=5))
        with producer.transaction(TOPIC, b"committed"):
            shop.sent.append((TOPIC, 0, len(shop.sent)))
        with producer.transaction(TOPIC, b"undecided") as half:
            half.leave_unknown()
        with pytest.raises(KeyError), producer.transaction(TOPIC, b"rolled back"):
            raise KeyError
    body = Random(3)
    for _ in range(30):  # several files of the log
        shop.send(TOPIC, 1, 1, body=body.randbytes(FILE_BYTES // 8))


def test_a_snapshot_ends_where_the_log_ended(store: RealStore) -> None:
    wanted = reader.Filter(topics=(TOPIC,))
    before = of_files(store.path, TOPIC)
    ranges = reader.plan(str(store.path), wanted)
    with Shop(store.namesrv) as shop:
        shop.sent += [(TOPIC, 1, number) for number in range(30)]
        shop.send(TOPIC, 3, 1)
    rows = [row for part in ranges for batch in reader.read_range(part, wanted) for row in batch.to_pylist()]
    assert len(rows) == len(before)
    assert len(of_files(store.path, TOPIC)) == len(before) + 3


def test_a_killed_store(store: RealStore) -> None:
    """What was acknowledged before the crash is there, and what is there is what a restarted broker has."""
    killed, acknowledged = Event(), []

    def send() -> None:
        with roquet.sync.Producer(store.namesrv, timeout=2.0, retries=0) as producer:
            while not killed.is_set():
                try:
                    acknowledged.append(producer.send(TOPIC, b"x" * 700, queue=queue(TOPIC)).queue_offset)
                except RoquetError:
                    return

    sender = Thread(target=send)
    sender.start()
    try:
        wait_for(lambda: len(acknowledged) > 50, "messages flow", pause_s=0.005)
        store.kill()
    finally:
        killed.set()
        sender.join()
    rows = of_files(store.path, TOPIC, KINDS)
    offsets = [row["queue_offset"] for row in rows if (row["topic"], row["queue_id"]) == (TOPIC, 0)]
    assert offsets == list(range(len(offsets))), "no gaps"
    assert set(acknowledged) <= set(offsets)
    store.start()
    with Shop(store.namesrv) as shop:
        wait_for(lambda: shop.bounds(TOPIC)[1] == len(offsets), "the broker has filed all that is in its log")
    # What Apache has delivered late it may deliver again after a crash: those may have become more.
    served = of_broker(store, TOPIC, KINDS)
    assert [row for row in served if row["topic"] == TOPIC] == [row for row in rows if row["topic"] == TOPIC]
    assert all(row in served for row in rows)


def test_a_stopped_store_and_its_log_alone(store: RealStore, tmp_path: Path) -> None:
    served = of_broker(store, TOPIC)
    store.stop()
    assert of_files(store.path, TOPIC) == served
    alone = tmp_path / "backup"
    shutil.copytree(store.path / "commitlog", alone)
    assert of_files(alone, TOPIC) == served
    assert of_files(alone) == of_files(store.path)
    assert len(list(alone.iterdir())) >= 4


@pytest.mark.parametrize("where", ["size", "magic", "offset", "body"])
def test_a_flipped_bit(store: RealStore, tmp_path: Path, where: str) -> None:
    """One record of the middle is lost, and told; all others are what they were."""
    whole = of_files(store.path)
    hit = sorted(whole, key=lambda row: row["log_offset"])[len(whole) // 2]
    at = {"size": 1, "magic": 5, "offset": 33, "body": 90}[where]
    copy = copied(store, tmp_path)
    file, inside = divmod(hit["log_offset"], FILE_BYTES)
    path = copy / f"{file * FILE_BYTES:020d}"
    data = bytearray(path.read_bytes())
    data[inside + at] ^= 0x10
    path.write_bytes(data)
    check_damage(copy, [row for row in whole if row is not hit], hit["log_offset"])


@pytest.mark.parametrize("how", ["missing", "short", "empty"])
def test_a_file_that_is_not_whole(store: RealStore, tmp_path: Path, how: str) -> None:
    whole = of_files(store.path)
    copy = copied(store, tmp_path)
    path = sorted(copy.iterdir())[1]
    begin, kept = int(path.name), 0
    if how == "missing":
        path.unlink()
    else:
        kept = FILE_BYTES // 3 if how == "short" else 0
        path.write_bytes(path.read_bytes()[:kept])
    sizes = {row["log_offset"]: size for row, size in with_sizes(store, whole)}
    lost = [
        row
        for row in whole
        if begin <= row["log_offset"] < begin + FILE_BYTES
        and row["log_offset"] + sizes[row["log_offset"]] > begin + kept
    ]
    assert lost
    check_damage(copy, [row for row in whole if row not in lost])


def with_sizes(store: RealStore, rows: list[Row]) -> Iterator[tuple[Row, int]]:
    for row in rows:
        file, inside = divmod(row["log_offset"], FILE_BYTES)
        with (store.path / "commitlog" / f"{file * FILE_BYTES:020d}").open("rb") as log:
            log.seek(inside)
            yield row, int.from_bytes(log.read(4), "big")


def test_a_torn_end(store: RealStore, tmp_path: Path) -> None:
    """Half of the last record is as good as none: it was never acknowledged, or it will be sent again."""
    whole = of_files(store.path)
    last = max(whole, key=lambda row: row["log_offset"])
    copy = copied(store, tmp_path)
    file, inside = divmod(last["log_offset"], FILE_BYTES)
    path = copy / f"{file * FILE_BYTES:020d}"
    data = path.read_bytes()
    path.write_bytes(data[: inside + 60].ljust(len(data), b"\0"))
    assert of_files(copy) == [row for row in whole if row is not last]
    path.write_bytes(data[: inside + 60])
    assert of_files(copy) == [row for row in whole if row is not last]


def copied(store: RealStore, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(store.path / "commitlog", copy)
    return copy


def check_damage(copy: Path, sound: list[Row], at: int | None = None) -> None:
    """Damage is an error that names its place, a gap, or a row of its own."""
    with pytest.raises(reader.DamagedStore, match=r"bytes at \d+" if at is None else f"bytes at {at} of"):
        of_files(copy)
    assert of_files(copy, damaged="skip") == sound
    told = of_files(copy, damaged="column")
    damage = [row for row in told if row["damage"]]
    assert damage
    assert all(row["topic"] is None for row in damage)
    assert at is None or [row["log_offset"] for row in damage] == [at]
    rest = [
        {name: value for name, value in row.items() if name != "damage"} for row in told if not row["damage"]
    ]
    assert rest == sound
