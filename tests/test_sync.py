"""The synchronous client: the same objects, from any thread, over one loop; and it is written, not edited."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

import roquet
from roquet import sync
from roquet.client.describe_sync import Writer
from roquet.testing import ThreadedBroker
from tests.ctrl_c import pressed

END_S = 120.0


@pytest.fixture
def producer(roquet_broker: ThreadedBroker) -> Iterator[sync.Producer]:
    with sync.Producer(roquet_broker.namesrv, group="shop") as made:
        yield made


def reader(broker: ThreadedBroker, topic: str = "orders") -> sync.Consumer:
    return sync.Consumer(broker.namesrv, group="billing", subscribe=topic, start="earliest")


def test_the_file_is_what_the_generator_writes() -> None:
    def classes(text: str) -> dict[str, str]:
        return {node.name: ast.dump(node) for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}

    assert sync.__file__ is not None
    here, written = classes(Path(sync.__file__).read_text()), classes(Writer().write_all())
    stale = {name for name in here.keys() | written.keys() if here.get(name) != written.get(name)}
    assert stale == set(), "run `make docs`"


def test_messages_are_sent_and_iterated(roquet_broker: ThreadedBroker, producer: sync.Producer) -> None:
    receipt = producer.send("orders", b"one", tag="created", keys=["42"])
    assert receipt.status == "ok"
    with reader(roquet_broker) as consumer:
        message = next(iter(consumer))
        assert (message.body, message.tag, message.keys) == (b"one", "created", ["42"])
        assert message.message_id == receipt.message_id
        message.ack()
        assert {queue.topic for queue in consumer.assigned} == {"orders"}


def test_batches(roquet_broker: ThreadedBroker, producer: sync.Producer) -> None:
    producer.send_batch("orders", [str(number) for number in range(40)])
    seen: set[bytes] = set()
    with reader(roquet_broker) as consumer:
        for batch in consumer.batches(max=8):
            assert 1 <= len(batch) <= 8
            for message in batch:
                seen.add(message.body)
                message.ack()
            if len(seen) == 40:
                break


def test_a_handler_runs_in_threads_and_may_wait(
    roquet_broker: ThreadedBroker, producer: sync.Producer
) -> None:
    together = threading.Barrier(4)
    threads: set[str] = set()
    stopper: list[sync.Consumer] = []

    def handle(message: sync.Message) -> None:
        threads.add(threading.current_thread().name)
        together.wait(END_S)  # passes when four of them run at the same time
        producer.send("bills", message.body)  # and synchronous calls are allowed
        if len(threads) == 4:
            stopper[0].stop()

    producer.send_batch("orders", ["1", "2", "3", "4"])
    consumer = sync.Consumer(
        roquet_broker.namesrv, group="billing", subscribe="orders", start="earliest", handler=handle
    )
    stopper.append(consumer)
    consumer.run()
    assert len(threads) == 4 and threading.main_thread().name not in threads


def test_a_transaction_is_a_block(roquet_broker: ThreadedBroker, producer: sync.Producer) -> None:
    with producer.transaction("orders", b"kept") as half:
        assert half.receipt.message_id
    with pytest.raises(KeyError), producer.transaction("orders", b"taken back"):
        raise KeyError("on purpose")
    producer.send("orders", b"last")
    with reader(roquet_broker) as consumer:
        messages = iter(consumer)
        assert {next(messages).body, next(messages).body} == {b"kept", b"last"}


def test_a_check_function_is_asked_in_a_thread(roquet_broker: ThreadedBroker) -> None:
    asked: list[str] = []

    def check(message: roquet.Message) -> Literal["commit"]:
        asked.append(threading.current_thread().name)
        return "commit"

    with sync.Producer(roquet_broker.namesrv, group="atomic", check=check) as producer:
        half = producer.transaction("orders", b"asked about")
        half.__enter__()  # and this process forgets to end it
        with reader(roquet_broker) as consumer:
            roquet_broker.advance(timedelta(minutes=1))
            assert next(iter(consumer)).body == b"asked about"
    assert asked and asked[0] != threading.main_thread().name


def test_request_and_reply(roquet_broker: ThreadedBroker, producer: sync.Producer) -> None:
    producer.send("questions", b"warm up")

    def answer() -> None:
        with reader(roquet_broker, "questions") as consumer:
            for message in consumer:
                message.ack()
                if message.body == b"6 * 7?":
                    producer.reply(message, b"42")
                    return

    answering = threading.Thread(target=answer)
    answering.start()
    assert producer.request("questions", b"6 * 7?", timeout=END_S).body == b"42"
    answering.join(END_S)


def test_administration(roquet_broker: ThreadedBroker) -> None:
    with sync.Admin(roquet_broker.namesrv) as admin:
        admin.topics.create("made", queues=2)
        assert "made" in admin.topics.list()
        assert [place.name for place in admin.cluster.list()] == ["broker-a"]


def test_many_threads_share_a_producer(producer: sync.Producer) -> None:
    with ThreadPoolExecutor(16) as pool:
        receipts = list(pool.map(lambda n: producer.send("orders", str(n)), range(300)))
    assert len({(receipt.queue_id, receipt.queue_offset) for receipt in receipts}) == 300
    futures = [producer.send_nowait("orders", b"later") for _ in range(50)]
    assert all(future.result(END_S).status == "ok" for future in futures)


def test_one_cluster_for_several(roquet_broker: ThreadedBroker) -> None:
    with (
        sync.Cluster(roquet_broker.namesrv) as cluster,
        sync.Producer(cluster) as producer,
        sync.Admin(cluster) as admin,
    ):
        admin.topics.create("orders", queues=3)
        assert producer.send("orders", b"x").queue_id < 3


def test_errors_are_those_of_the_client(roquet_broker: ThreadedBroker) -> None:
    producer = sync.Producer(roquet_broker.namesrv)
    with pytest.raises(roquet.Closed):
        producer.send("orders", b"x")
    with pytest.raises(roquet.Misuse):
        sync.Producer(roquet_broker.namesrv, group="a name with blanks")


def test_inside_of_the_loop_it_refuses_instead_of_hanging(producer: sync.Producer) -> None:
    class Careless(roquet.Hook):
        def before_send(self, sending: object) -> None:
            try:
                producer.send("orders", b"again")
            except roquet.Misuse as error:
                caught.append(error)

    caught: list[roquet.Misuse] = []
    hook = Careless()

    async def on_the_loop() -> None:
        hook.before_send(None)

    producer._run(on_the_loop())
    assert "block the event loop" in str(caught[0])


def test_a_child_of_fork_gets_an_error_and_may_begin_anew(
    roquet_broker: ThreadedBroker, producer: sync.Producer
) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"nothing"
        try:
            try:
                with producer:
                    producer.send("orders", b"from the child")
            except roquet.Forked:
                told = b"forked"
            with sync.Producer(roquet_broker.namesrv) as own:
                told += b", " + own.send("orders", b"from the child").status.encode()
        finally:
            os.write(writing, told)
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        assert answer.read() == b"forked, ok"
    os.waitpid(child, 0)
    assert producer.send("orders", b"from the parent").status == "ok"


def test_ctrl_c_leaves_a_loop_that_waits_for_messages(roquet_broker: ThreadedBroker) -> None:
    waiting = threading.Event()
    with reader(roquet_broker) as consumer, pressed(waiting), pytest.raises(KeyboardInterrupt):
        waiting.set()
        next(iter(consumer))


def test_the_interpreter_ends_with_a_client_left_open(roquet_broker: ThreadedBroker) -> None:
    script = f"""
import roquet
producer = roquet.sync.Producer({roquet_broker.namesrv!r})
producer.open()
consumer = roquet.sync.Consumer({roquet_broker.namesrv!r}, group="g", subscribe="orders")
consumer.open()
print(producer.send("orders", b"x").status)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=END_S)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr


def test_it_works_beside_an_event_loop_of_the_program(roquet_broker: ThreadedBroker) -> None:
    async def main() -> str:
        def send() -> str:
            with sync.Producer(roquet_broker.namesrv) as producer:
                return producer.send("orders", b"x").status

        return await asyncio.to_thread(send)

    assert asyncio.run(main()) == "ok"
