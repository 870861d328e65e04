"""What tasks do: chunks that follow the broker's answers, bounded memory, blocks, order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pyarrow as pa
import pytest

from roquet.client.reader.reader import RawPage, Status
from roquet.spark import read
from roquet.spark.access import Access
from roquet.spark.plan import Range
from roquet.spark.read import How, Part, Pulls, _Step, read_ranges
from tests.spark.shop import BROKER, Shop, queue


def test_the_length_of_chunks_is_learned() -> None:
    step = _Step(8192)
    step.note(8192, 32)
    assert step.length == 32
    for _ in range(read.FULL_BEFORE_MORE - 1):
        step.note(32, 32)
    assert step.length == 32
    step.note(32, 32)
    assert step.length == 64, "from time to time more is tried"
    step.note(64, 32)
    assert step.length == 32
    step.note(32, 800)
    assert step.length == 800, "a filtered answer steps over much"
    step.note(800, 100_000)
    assert step.length == 8192


class Answers:
    """A reader that gives at most so many messages of a size at once, and counts what is under way."""

    def __init__(self, at_most: int, size_bytes: int) -> None:
        self.at_most = at_most
        self.size_bytes = size_bytes
        self.under_way = self.under_way_max = self.pulls = self.given_bytes = 0

    async def read_raw(self, each: Any, offset: int, *, max_messages: int, **_: Any) -> RawPage:
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.pulls += 1
        count = min(max_messages, self.at_most)
        data = b"".join(b"%08d" % (offset + number) * self.size_bytes for number in range(count))
        self.given_bytes += len(data)
        return RawPage(Status.FOUND, data, offset + count, 0, 10**9)

    async def open(self) -> None: ...

    async def close(self) -> None: ...


def pulled(answers: Answers, ranges: list[Range], **how: Any) -> tuple[list[Part], int]:
    """Return all parts, and the most bytes that were ahead of what was taken."""

    async def main() -> tuple[list[Part], int]:
        pulls = Pulls(ranges, How(Access("127.0.0.1:9876"), (), **how))
        pulls._reader = answers  # type: ignore[assignment]
        parts: list[Part] = []
        ahead = taken = 0
        while block := await pulls.block():
            for _ in range(50):
                await asyncio.sleep(0)
            parts += block
            taken += sum(len(part.data) for part in block)
            ahead = max(ahead, answers.given_bytes - taken)
        return parts, ahead

    return asyncio.run(main())


@pytest.mark.parametrize("at_most", [8, 32, 1000])
def test_answers_come_in_order_with_several_under_way(at_most: int) -> None:
    answers = Answers(at_most, 1)
    ranges = [Range(queue("t", 0), 5, 3005), Range(queue("t", 1), 0, 10), Range(queue("t", 2), 7, 1007)]
    parts, _ = pulled(answers, ranges, pipeline=6)
    numbers = [int(data[at : at + 8]) for _, _, _, data in parts for at in range(0, len(data), 8)]
    assert numbers == [*range(5, 3005), *range(10), *range(7, 1007)]
    assert answers.under_way_max == 6 if at_most < 1000 else answers.under_way_max >= 4
    assert answers.pulls <= 4010 / at_most + 20


def test_memory_is_bounded_where_messages_grow() -> None:
    """Chunks were learned on small messages; then large ones come."""
    answers = Answers(1000, 1)
    ranges = [Range(queue("t", 0), 0, 1000), Range(queue("t", 1), 0, 20_000)]

    async def main() -> int:
        pulls = Pulls(ranges, How(Access("127.0.0.1:9876"), (), pipeline=4, pull_bytes=100_000))
        pulls._reader = answers  # type: ignore[assignment]
        await pulls._fill()
        answers.size_bytes, answers.at_most = 500, 10  # 40 KB an answer, and a hundred of them a chunk
        before = answers.given_bytes
        for _ in range(500):
            await asyncio.sleep(0)
        ahead = answers.given_bytes - before
        await pulls.close()
        return ahead

    assert asyncio.run(main()) <= 4 * (100_000 + 40_000)


def test_small_pages_become_large_batches(shop: Shop) -> None:
    shop.topic("orders", 2)
    shop.fill("orders", 2000)
    reader = shop.batch(("queue_id", "queue_offset"), subscribe="orders", pullMessages="32")
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert len(batches) == 1
    few = shop.batch(("queue_id",), subscribe="orders", arrowBatchRows="300")
    sizes = [batch.num_rows for part in few.partitions() for batch in few.read(part)]
    assert (sum(sizes), max(sizes)) == (2000, 300)


def test_a_task_that_is_given_up_closes_its_connections(shop: Shop) -> None:
    shop.topic("orders")
    shop.fill("orders", 500)
    reader = shop.batch(("body",), subscribe="orders", arrowBatchRows="10")
    rows = reader.read(reader.partitions()[0])
    assert next(rows).num_rows == 10
    rows.close()  # type: ignore[attr-defined]
    assert list(rows) == []


def test_a_namespace_is_not_in_the_topic(shop: Shop) -> None:
    shop.topic("shop%orders")
    shop.send("shop%orders", 2)
    rows = shop.read(("topic", "queue_offset"), subscribe="orders", namespace="shop")
    assert rows.to_pylist() == [{"topic": "orders", "queue_offset": number} for number in range(2)]


def test_schemas_are_exactly_sparks(shop: Shop) -> None:
    shop.topic("orders")
    shop.send("orders", 1, tag="A")
    how = How(Access(shop.namesrv), ("tag", "store_time", "properties"), exact_tags=frozenset({"A"}))
    (batch,) = read_ranges([Range(queue("orders"), 0, 1)], how)
    assert batch.schema.types == [
        pa.string(),
        pa.timestamp("us", "UTC"),
        pa.map_(pa.string(), pa.string()),
    ]


def test_values_are_decoded_from_bodies(shop: Shop) -> None:
    from roquet.spark.values import Format, ValueReader

    shop.topic("orders")
    shop.send("orders", 1, body=json.dumps({"id": 5}).encode())
    value = ValueReader(Format("json"), pa.struct([("id", pa.int64())]))
    how = How(Access(shop.namesrv), ("value", "broker"), value=value)
    (batch,) = read_ranges([Range(queue("orders"), 0, 1)], how)
    assert batch.to_pylist() == [{"value": {"id": 5}, "broker": BROKER}]
