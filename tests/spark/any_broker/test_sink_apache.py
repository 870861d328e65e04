"""The sink against a real Apache 5.5.0, which stores a half twice that is committed twice."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from pyspark.sql.datasource import WriterCommitMessage

import roquet.sync
from roquet.client.errors import RoquetError, TransactionUnsettled
from roquet.client.producer.staging import Outcome, Place, Staging
from roquet.spark.ledger import Ledger
from roquet.spark.options import OptionError
from roquet.spark.sink import stream_writer_of, writer_of
from roquet.spark.staged import Mark, Staged, StagedStreamSink
from tests.spark.sinks import SCHEMA, counted, once, rows, until

pytestmark = pytest.mark.java


@pytest.fixture
def namesrv(apache_namesrv: str) -> str:
    return apache_namesrv


def seen(namesrv: str, topic: str) -> Counter[str]:
    """Return how often each key is visible once the broker has filed all that it has stored."""
    with roquet.sync.Producer(namesrv) as producer, roquet.sync.Reader(namesrv) as reader:
        last = producer.send("last", b"-")
        [queue] = [each for each in reader.queues("last") if each.queue_id == last.queue_id]
        until(lambda: reader.max_offset(queue) > last.queue_offset, "filing a message")
    return counted(namesrv, topic)


def driver(namesrv: str, topic: str, **options: str) -> StagedStreamSink:
    given = {"namesrv": namesrv, "topic": topic, "delivery": "exactly-once", **options}
    made = stream_writer_of(given, SCHEMA, False)
    assert isinstance(made, StagedStreamSink)
    return made


def stage(namesrv: str, topic: str, epoch: int, first: int, rows_count: int) -> Staged:
    return driver(namesrv, topic)._stages.stage(rows(first, rows_count), Mark(topic, epoch, 0, 0))


def test_at_least_once(namesrv: str) -> None:
    writer = writer_of({"namesrv": namesrv, "topic": "plain"}, SCHEMA, False)
    writer.commit([writer.write(rows(0, 20_000))])
    assert seen(namesrv, "plain") == once(0, 20_000)


def test_exactly_once_says_what_it_promises_here(namesrv: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = stage(namesrv, "promised", 0, 0, 1_000), stage(namesrv, "promised", 0, 0, 1_000)
    assert seen(namesrv, "promised") == {}
    driver(namesrv, "promised").commit([first], 0)
    assert "stores a row again when its commit is repeated" in caplog.text
    driver(namesrv, "promised").commit([second], 0)
    driver(namesrv, "promised").abort([None, second], 0)
    assert seen(namesrv, "promised") == once(0, 1_000)
    driver(namesrv, "promised").abort(
        list[WriterCommitMessage | None]([stage(namesrv, "promised", 1, 9, 9)]), 1
    )
    assert seen(namesrv, "promised") == once(0, 1_000)


def test_who_wants_the_whole_promise_is_refused_before_anything_is_sent(namesrv: str) -> None:
    strict = driver(namesrv, "strict", onApache="refuse")
    with pytest.raises(OptionError, match="stores a row again"):
        strict._stages.stage(rows(0, 10), Mark("strict", 0, 0, 0))
    assert seen(namesrv, "strict") == {}


@pytest.mark.parametrize("done", [0, 137, 400])
def test_a_restart_commits_only_what_is_not_visible_yet(
    namesrv: str, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    topic = f"restart-{done}"
    whole = Staging._end_one
    calls = count()

    async def dying(self: Staging, broker: str, topic: str, place: Place, outcome: Outcome) -> None:
        if next(calls) >= done:
            raise RoquetError("the driver is gone")
        await whole(self, broker, topic, place, outcome)

    monkeypatch.setattr(Staging, "_end_one", dying)
    first = stage(namesrv, topic, 0, 0, 400)
    if done == 400:
        monkeypatch.setattr(Ledger, "committed", _gone)
    with pytest.raises((TransactionUnsettled, RoquetError)):
        driver(namesrv, topic).commit([first], 0)
    monkeypatch.undo()
    driver(namesrv, topic).abort([first], 0)
    driver(namesrv, topic).commit([stage(namesrv, topic, 0, 0, 400)], 0)
    assert seen(namesrv, topic) == once(0, 400)


async def _gone(*_: object) -> None:
    raise RoquetError("the driver is gone")
