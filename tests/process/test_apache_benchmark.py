"""Apache's own benchmark programs, producer and consumer at the same time, for twenty seconds: no failure.

They are the classes behind `benchmark/producer.sh` and `consumer.sh` of the 5.5.0 distribution. What they
measure is the affair of `bench`; here they must only work, and everything that was sent must be consumed.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.reports import Report, consumed_reports, sent_reports
from roquet.client import Answered, Plain, connect
from roquet.wire.requests.offsets import GetMaxOffset, OffsetFound, QueryOffset
from roquet.wire.requests.topics import UpdateTopic
from tests.peers import jars, roquet
from tests.peers.child import Child
from tests.peers.java import small_jvm

pytestmark = [pytest.mark.java, pytest.mark.process]

TOPIC, GROUP, QUEUES = "Benchmark", "benchmark-readers", 8
LINES = 11  # a line each second from the tenth on: the last comes after twenty
PATIENCE_S = 240.0
CATCH_UP_S = 240.0


def start(program: str, home: Path, namesrv: str, *words: str) -> Child:
    home.mkdir(parents=True)
    main = f"org.apache.rocketmq.example.benchmark.{program}"
    argv = [jars.java(), *small_jvm(home), "-cp", jars.apache_classpath(), main, "-n", namesrv, "-t", TOPIC]
    return Child(program, [*argv, "-ri", "1000", *words], home / "out")


def wait_for_lines(client: Child, parse: Callable[[str], list[Report]]) -> list[Report]:
    client.wait_until(lambda: len(parse(client.text())) >= LINES, f"line {LINES}", PATIENCE_S)
    return parse(client.text())


async def offsets(client: Plain, broker: str) -> tuple[list[int], list[int]]:
    """Return where every queue ends and how far the group is in it."""
    ends, committed = [], []
    for queue_id in range(QUEUES):
        answer = await client.ask(broker, GetMaxOffset(TOPIC, queue_id))
        ends.append(OffsetFound.decode(answer.ext).offset)
        try:
            answer = await client.ask(broker, QueryOffset(GROUP, TOPIC, queue_id))
        except Answered:
            committed.append(0)
        else:
            committed.append(OffsetFound.decode(answer.ext).offset)
    return ends, committed


def test_the_benchmark_programs_run_without_a_failure(tmp_path: Path) -> None:
    node = roquet.start_up(tmp_path / "store", settings={"mappedFileSizeCommitLog": str(64 << 20)})

    async def set_up() -> None:
        async with connect(node.namesrv) as client:
            await client.ask(node.broker, UpdateTopic(TOPIC, QUEUES, QUEUES, 6))

    async def catch_up() -> list[int]:
        deadline = time.monotonic() + CATCH_UP_S
        async with connect(node.namesrv) as client:
            while True:
                ends, committed = await offsets(client, node.broker)
                if ends == committed:
                    return ends
                assert time.monotonic() < deadline, f"of {ends} only {committed} are consumed"
                await asyncio.sleep(0.2)

    try:
        asyncio.run(set_up())
        with (
            start("Consumer", tmp_path / "consumer", node.namesrv, "-g", GROUP) as consumer,
            start("Producer", tmp_path / "producer", node.namesrv, "-w", "8") as producer,
        ):
            sent = wait_for_lines(producer, sent_reports)
            producer.kill()
            consumed = wait_for_lines(consumer, consumed_reports)
            ends = asyncio.run(catch_up())
            consumer.kill()
        assert all(line.messages_per_s > 0 and line.failures == 0 for line in sent), sent
        assert consumed[0].messages_per_s > 0 and not any(line.failures for line in consumed), consumed
        assert all(ends)
        said = node.process.text()
        assert " WARN " not in said and " ERROR " not in said and "Traceback" not in said, node.process.tail()
        node.stop()
    finally:
        node.kill()
