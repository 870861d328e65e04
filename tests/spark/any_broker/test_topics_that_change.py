"""Topics that change under a query, on a broker of ours and on Apache's: shrunk, moved, deleted by age.

Deleting comes last: Apache's broker deletes nothing in the first minute after its start.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from roquet.model.route import QueueName
from roquet.spark.access import DataLost
from roquet.spark.plan import from_json
from tests.peers import apache, roquet
from tests.spark.any_broker.test_batch import per_queue
from tests.spark.any_broker.test_stream import ALL, drain
from tests.spark.shop import Shop, between, places, queue

AT_ONCE = {"queueDiscoveryInterval": "0ms", "startingOffsets": "earliest"}
NO_MATTER = {"failOnDataLoss": "false"}
MIB = 1 << 20


@pytest.fixture
def second(shop: Shop, tmp_path: Path) -> Iterator[str]:
    """A second broker of the same kind in the cluster; its name."""
    settings = {"brokerName": "broker-b"}
    node: apache.ApacheNode | roquet.RoquetNode
    if shop.is_ours:
        node = roquet.start_broker(tmp_path / "second", shop.namesrv, settings=settings)
    else:
        node = apache.start_broker(tmp_path / "second", shop.namesrv, settings=settings)
    yield "broker-b"
    node.kill()


def test_fewer_queues_to_write_to(shop: Shop) -> None:
    """Queues that get no more messages are read to their end, and are no loss."""
    orders = shop.fresh("orders", 4)
    for queue_id in range(4):
        shop.send(orders, 5, queue_id)
    reader = shop.stream(subscribe=orders, maxOffsetsPerTrigger="8", **AT_ONCE)
    start = reader.initialOffset()
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    shop.admin.topics.update(orders, write_queues=2)
    shop.send(orders, 3, 1)
    rest = drain(reader, first, reader.getDefaultReadLimit())
    rows = [*between(reader, start, first), *(place for batch in rest for place in batch)]
    assert sorted(rows) == sorted(shop.sent)
    reader.stop()


def test_fewer_queues_to_read_from(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """A queue that may not be read any more is a loss; when it comes back it is read on."""
    orders = shop.fresh("orders", 2)
    shop.send(orders, 3, 0)
    shop.send(orders, 3, 1)
    reader = shop.stream(subscribe=orders, **AT_ONCE)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    shop.send(orders, 2, 1)
    shop.admin.topics.update(orders, queues=1)
    shop.send(orders, 1, 0)
    with pytest.raises(DataLost, match=f"queue 1 of topic {orders} at broker-a is served by nobody"):
        reader.latestOffset(end, ALL)
    reader.stop()
    easy = shop.stream(subscribe=orders, **AT_ONCE, **NO_MATTER)
    with caplog.at_level(logging.WARNING, "roquet.spark"):
        new = easy.latestOffset(end, ALL)
    assert "is served by nobody" in caplog.text
    assert between(easy, end, new) == [(orders, 0, 3)]
    shop.admin.topics.update(orders, queues=2)
    assert drain(easy, new) == [[(orders, 1, 3), (orders, 1, 4)]]
    easy.stop()


@pytest.mark.process
def test_a_topic_that_moves_to_another_broker(shop: Shop, second: str) -> None:
    """The old broker is only read from, the new one takes over: every message once."""
    orders = shop.fresh("orders", 2)
    if shop.admin.topics.get(orders).keys() != {"broker-a"}:  # the second broker got the topic as well
        shop.admin.topics.update(orders, access="r", broker=second)
    shop.send(orders, 4, 0)
    reader = shop.stream(subscribe=orders, **AT_ONCE)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    shop.send(orders, 2, 1)
    shop.admin.topics.create(orders, queues=2, broker=second)
    shop.admin.topics.update(orders, access="r", broker="broker-a")
    shop.sent.clear()
    shop.send(orders, 3, 0, broker=second)
    new = reader.latestOffset(end, ALL)
    assert sorted(between(reader, end, new)) == [
        *((orders, 0, number) for number in range(3)),
        *((orders, 1, number) for number in range(2)),
    ]
    offsets = from_json(new)
    assert (offsets[queue(orders)], offsets[QueueName(second, 0, orders)]) == (4, 3)
    assert len(places(shop.read(subscribe=orders))) == 9
    only = shop.read(assign=json.dumps({orders: {second: [0]}}))
    assert only["broker"].to_pylist() == [second] * 3
    reader.stop()


def test_what_is_deleted_by_age_is_reported(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 20, body=Random(1).randbytes(MIB))
    wanted = {"subscribe": orders, "failOnDataLoss": "true"}
    planned = shop.batch(("queue_offset",), **wanted)
    easy = shop.batch(("queue_offset",), **wanted | NO_MATTER)
    part, easy_part = planned.partitions()[0], easy.partitions()[0]
    first = shop.forget(orders)
    with pytest.raises(DataLost, match=rf"begins at {first} by now: \d+ messages from 0 on are gone"):
        list(planned.read(part))
    with caplog.at_level(logging.WARNING, "roquet.spark"):
        assert sum(batch.num_rows for batch in easy.read(easy_part)) == 20 - first
    assert f"begins at {first} by now" in caplog.text
    assert places(shop.read(subscribe=orders)) == [(orders, 0, number) for number in range(first, 20)]
    from_zero: dict[str, Any] = {"subscribe": orders, "startingOffsets": per_queue(orders, q0=0)}
    with pytest.raises(DataLost, match=f"begins at {first} by now, and 0 was asked for"):
        shop.read(**from_zero)
    assert shop.read(("topic",), **from_zero, **NO_MATTER).num_rows == 20 - first


def test_a_stream_that_was_away_too_long(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    orders = shop.fresh("orders")
    shop.send(orders, 20, body=Random(2).randbytes(MIB))
    reader = shop.stream(("topic", "queue_id", "queue_offset"), subscribe=orders, **AT_ONCE)
    start = reader.initialOffset()
    reader.stop()
    first = shop.forget(orders)
    strict = shop.stream(("topic", "queue_id", "queue_offset"), subscribe=orders)
    with pytest.raises(DataLost, match=f"begins at {first} by now, and the query is at 0"):
        strict.latestOffset(start, ALL)
    strict.stop()
    easy = shop.stream(("topic", "queue_id", "queue_offset"), subscribe=orders, **NO_MATTER)
    with caplog.at_level(logging.WARNING, "roquet.spark"):
        assert drain(easy, start) == [[(orders, 0, number) for number in range(first, 20)]]
    assert f"begins at {first} by now" in caplog.text
    easy.stop()
