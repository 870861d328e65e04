"""What tasks do: chunks that follow the broker's answers, bounded memory, blocks, order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from roquet.client.reader.reader import RawPage, Status
from roquet.model.message import Draft, Host
from roquet.spark import read
from roquet.spark.access import Access, DataLost
from roquet.spark.plan import Range
from roquet.spark.read import How, Part, Pulls, _Step, read_ranges, to_batches
from roquet.store.format import record
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


UNIT_BYTES = 32


def unit(offset: int) -> bytes:
    """Return what is looked at of a record: its number as a text, and its queue offset in its place."""
    return b"%08d" % offset + bytes(12) + offset.to_bytes(8, "big") + bytes(4)


class Answers:
    """A reader that gives at most so many messages of a size at once, and counts what is under way."""

    def __init__(self, at_most: int, units: int) -> None:
        self.at_most = at_most
        self.units = units
        self.under_way = self.under_way_max = self.pulls = self.given_bytes = 0

    async def read_raw(self, each: Any, offset: int, *, max_messages: int, **_: Any) -> RawPage:
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        await asyncio.sleep(0)
        self.under_way -= 1
        self.pulls += 1
        count = min(max_messages, self.at_most)
        data = b"".join(unit(offset + number) * self.units for number in range(count))
        self.given_bytes += len(data)
        return RawPage(Status.FOUND, data, offset + count, 0, 10**9)

    async def open(self) -> None: ...

    async def close(self) -> None: ...


def pulled(answers: Answers, ranges: list[Range], **how: Any) -> tuple[list[Part], int]:
    """Return all parts, and the most bytes that were ahead of what was taken."""

    async def main() -> tuple[list[Part], int]:
        pulls = Pulls(ranges, How(**{"access": Access("127.0.0.1:9876"), "names": (), **how}))
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
    numbers = [int(data[at : at + 8]) for _, _, _, data in parts for at in range(0, len(data), UNIT_BYTES)]
    assert numbers == [*range(5, 3005), *range(10), *range(7, 1007)]
    assert answers.under_way_max == 6 if at_most < 1000 else answers.under_way_max >= 4
    assert answers.pulls <= 4010 / at_most + 20


class Gaps(Answers):
    """A queue that steps over what it does not have, and knows only later where it begins."""

    def __init__(self, has_from: int, begins: Sequence[int]) -> None:
        super().__init__(100, 1)
        self.has_from = has_from
        self.begins = list(begins)
        self.asked = 0

    async def read_raw(self, each: Any, offset: int, *, max_messages: int, **how: Any) -> RawPage:
        page = await super().read_raw(each, max(offset, self.has_from), max_messages=max_messages, **how)
        return page._replace(next_offset=max(page.next_offset, offset + 1))

    async def min_offset(self, each: Any) -> int:
        self.asked += 1
        return self.begins.pop(0) if len(self.begins) > 1 else self.begins[0]


def test_what_a_broker_steps_over_is_a_loss_once_it_says_so() -> None:
    access = Access("127.0.0.1:9876", pause_s=0.001)
    gaps = Gaps(40, [0, 0, 40])
    with pytest.raises(
        DataLost, match="queue 0 of topic t at broker-a begins at 40 by now: 35 messages from 5"
    ):
        pulled(gaps, [Range(queue("t"), 5, 100)], access=access)
    assert gaps.asked == 3
    parts, _ = pulled(Gaps(40, [40]), [Range(queue("t"), 5, 100)], access=access, fail_on_data_loss=False)
    assert int(parts[0].data[:8]) == 40
    new, _ = pulled(Gaps(40, [40]), [Range(queue("t"), 0, 100, is_new=True)], access=access)
    assert int(new[0].data[:8]) == 40


def test_a_topic_with_gaps_all_along_loses_nothing() -> None:
    sparse = Gaps(40, [0])
    parts, _ = pulled(sparse, [Range(queue("t"), 5, 1000)], access=Access("127.0.0.1:9876", pause_s=0.001))
    assert int(parts[0].data[:8]) == 40
    assert sparse.asked == 4, "it is asked for once, with patience"
    tagged = Gaps(40, [40])
    pulled(tagged, [Range(queue("t"), 5, 100)], tags="A")
    assert tagged.asked == 0, "with a filter gaps are what was asked for"


def test_memory_is_bounded_where_messages_grow() -> None:
    """Chunks were learned on small messages; then large ones come."""
    answers = Answers(1000, 1)
    ranges = [Range(queue("t", 0), 0, 1000), Range(queue("t", 1), 0, 20_000)]

    async def main() -> int:
        pulls = Pulls(ranges, How(Access("127.0.0.1:9876"), (), pipeline=4, pull_bytes=100_000))
        pulls._reader = answers  # type: ignore[assignment]
        await pulls._fill()
        answers.units, answers.at_most = 125, 10  # 40 KB an answer, and a hundred of them a chunk
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


def test_a_body_that_does_not_open_is_a_loss_of_one(caplog: pytest.LogCaptureFixture) -> None:
    host = Host(bytes([127, 0, 0, 1]), 10_911)
    records = [
        record.encode(
            Draft("orders", 3, b"body %d" % number, b"", 0, int(number in (0, 4, 5)), 0, host),
            number,
            0,
            0,
            host,
        )
        for number in range(8)
    ]
    parts = [Part("orders", BROKER, 7, b"".join(records))]
    how = How(Access("127.0.0.1:9876"), ("queue_offset", "body"))
    with pytest.raises(
        DataLost, match="message 0 of queue 3 of topic orders at broker-a cannot be read: the"
    ):
        list(to_batches(parts, how))
    for rows in (1, 2, 100):
        easy = how._replace(fail_on_data_loss=False, rows=rows)
        found = [row for batch in to_batches(parts, easy) for row in batch.to_pylist()]
        assert found == [{"queue_offset": number, "body": b"body %d" % number} for number in (1, 2, 3, 6)]
    assert "message 4 of queue 3" in caplog.text
    bare = how._replace(names=("queue_offset",))
    assert sum(batch.num_rows for batch in to_batches(parts, bare)) == 7


def test_values_are_decoded_from_bodies(shop: Shop) -> None:
    from roquet.spark.values import Format, ValueReader

    shop.topic("orders")
    shop.send("orders", 1, body=json.dumps({"id": 5}).encode())
    value = ValueReader(Format("json"), pa.struct([("id", pa.int64())]))
    how = How(Access(shop.namesrv), ("value", "broker"), value=value)
    (batch,) = read_ranges([Range(queue("orders"), 0, 1)], how)
    assert batch.to_pylist() == [{"value": {"id": 5}, "broker": BROKER}]
