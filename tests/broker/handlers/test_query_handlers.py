"""Looking at messages: by key, by place in the log, and raw queue entries."""

from __future__ import annotations

import pytest

from roquet.store.format import record
from roquet.wire.requests.query import QueryMessage, QueryQueue, ViewMessage
from tests.broker.handlers.desk import Desk

FOREVER = 2**63 - 1


def test_messages_are_found_by_key() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            first = await desk.append("orders", 0, b"one", ("key1", "all"))
            second = await desk.append("orders", 1, b"two", ("all",))
            found = await desk.ask(QueryMessage("orders", "all", 32, 0, FOREVER))
            assert found.ext == {
                "indexLastUpdateTimestamp": str(second.store_ms),
                "indexLastUpdatePhyoffset": str(second.log_offsets[0]),
            }
            one = record.decode(found.body)
            two = record.decode(found.body, one.size_bytes)
            assert (bytes(one.body), bytes(two.body)) == (b"one", b"two")
            only = await desk.ask(QueryMessage("orders", "key1", 32, 0, first.store_ms))
            assert record.decode(only.body).log_offset == first.log_offsets[0]

        desk.run(scenario())


def test_a_query_by_unique_key_asks_for_32_whatever_it_says() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            for _ in range(40):
                await desk.append("orders", 0, b"x", ("same",))
            by_key = await desk.ask(QueryMessage("orders", "same", 3, 0, FOREVER))
            unique = await desk.ask(QueryMessage("orders", "same", 3, 0, FOREVER, True))
            size = record.decode(by_key.body).size_bytes
            assert (len(by_key.body) // size, len(unique.body) // size) == (3, 32)

        desk.run(scenario())


def test_nothing_found_says_so_in_apaches_words() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            absent = await desk.ask(QueryMessage("orders", "no such key", 32, 0, FOREVER))
            assert (absent.code, absent.remark) == (22, "can not find message, maybe time range not correct")
            assert absent.ext == {"indexLastUpdateTimestamp": "0", "indexLastUpdatePhyoffset": "0"}
            assert (await desk.ask(QueryMessage("orders", "k", -5, 0, FOREVER))).code == 22

        desk.run(scenario())


def test_a_message_is_viewed_by_its_place_in_the_log() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await desk.append("orders", 0, b"one")
            place = (await desk.append("orders", 0, b"two")).log_offsets[0]
            viewed = await desk.ask(ViewMessage(place))
            assert bytes(record.decode(viewed.body).body) == b"two"
            for wrong in (place + 1, 2**40, -1):
                refused = await desk.ask(ViewMessage(wrong))
                assert (refused.code, refused.remark) == (1, f"can not find message by the offset, {wrong}")

        desk.run(scenario())


def test_queue_entries_are_shown_raw() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            sizes = [(await desk.append("orders", 0, b"x" * count)).size_bytes for count in (1, 2, 3)]
            plain = await desk.ask(QueryQueue("orders", 0, 1, 2))
            assert plain.body == (
                b'{"maxQueueIndex":3,"minQueueIndex":0,"queueData":['
                b'{"eval":false,"physicOffset":%d,"physicSize":%d,"tagsCode":0},'
                b'{"eval":false,"physicOffset":%d,"physicSize":%d,"tagsCode":0}]}'
                % (sizes[0], sizes[1], sizes[0] + sizes[1], sizes[2])
            )
            offline = await desk.ask(QueryQueue("orders", 0, 0, 0, "g"))
            assert offline.body.startswith(b'{"filterData":"g@orders is not online!","maxQueueIndex":3')
            await desk.member("g", "orders")
            online = await desk.ask(QueryQueue("orders", 0, 0, 0, "g"))
            assert online.body == (
                b'{"filterData":"null","maxQueueIndex":3,"minQueueIndex":0,"queueData":[],"subscriptionData":'
                b'{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":7,'
                b'"tagsSet":[],"topic":"orders"}}'
            )

        desk.run(scenario())


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (QueryQueue("orders", 7, 0, 1), 1, "7@orders is not exist!"),
        (QueryQueue("../x", 0, 0, 1), 1, "0@../x is not exist!"),
        (QueryQueue("orders", 0, 99, 1), 0, "Index 99 of 0@orders is not exist!"),
        (QueryQueue("orders", 0, -1, 1), 0, "Index -1 of 0@orders is not exist!"),
    ],
)
def test_entries_that_are_not_there(request_: QueryQueue, code: int, remark: str) -> None:
    with Desk() as desk:

        async def scenario() -> None:
            await desk.append("orders", 0, b"x")
            answer = await desk.ask(request_)
            assert (answer.code, answer.remark, answer.body) == (code, remark, b"")

        desk.run(scenario())
