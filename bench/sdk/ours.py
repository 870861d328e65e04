"""`python -m bench.sdk.ours JOB`: the asynchronous and the synchronous client at work, one process each.

    send           `senders` tasks or threads, each waits for its receipt before it sends again
    send_batch     some of them, each with `send_batch` of `batch` bodies
    receive        `async for message in consumer`, each acknowledged
    receive_batch  `consumer.batches`, pulls and lists of `batch` messages

The asynchronous client runs on uvloop, as `roquet` itself does.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable

import roquet
from bench.sdk.meter import POLL_S, Job, Meter, read_job
from roquet.runtime.loop import loop_factory

PRODUCER_GROUP = "bench_producer"
FAILURES_MAX = 1_000
PULL_MAX = 1_024


def main() -> None:
    job = read_job(sys.argv[1])
    meter = Meter(job)
    if job.client == "async":
        with asyncio.Runner(loop_factory=loop_factory(os.environ)) as runner:
            runner.run(_ASYNC[job.work](job, meter))
    else:
        _SYNC[job.work](job, meter)


# --- the asynchronous client


async def _send(job: Job, meter: Meter) -> None:
    body = b"x" * job.body_bytes
    async with roquet.Producer(job.address, group=PRODUCER_GROUP) as producer:

        async def go_on(slot: int) -> None:
            while not meter.is_over and meter.failures < FAILURES_MAX:
                try:
                    await producer.send(job.topic, body)
                except roquet.RoquetError:
                    meter.failures += 1
                else:
                    meter.add(slot, 1)

        await _until_over(job, meter, go_on)


async def _send_batch(job: Job, meter: Meter) -> None:
    bodies = [b"x" * job.body_bytes] * job.batch
    async with roquet.Producer(job.address, group=PRODUCER_GROUP) as producer:

        async def go_on(slot: int) -> None:
            while not meter.is_over and meter.failures < FAILURES_MAX:
                try:
                    await producer.send_batch(job.topic, bodies)
                except roquet.RoquetError:
                    meter.failures += 1
                else:
                    meter.add(slot, len(bodies))

        await _until_over(job, meter, go_on)


async def _until_over(job: Job, meter: Meter, go_on: Callable[[int], Awaitable[None]]) -> None:
    senders = [asyncio.ensure_future(go_on(slot)) for slot in range(job.senders)]
    await _watch(meter)
    await asyncio.gather(*senders)


async def _watch(meter: Meter) -> None:
    while meter.pass_time():
        await asyncio.sleep(POLL_S)
    meter.print_report()


async def _receive(job: Job, meter: Meter) -> None:
    async with roquet.Consumer(
        job.address, group=job.group, subscribe=job.topic, start="earliest"
    ) as consumer:
        watching = asyncio.ensure_future(_watch(meter))
        async for message in consumer:
            await message.ack()
            meter.add(0, 1)
            if meter.is_over:
                break
        await watching


async def _receive_batch(job: Job, meter: Meter) -> None:
    batch = min(job.batch, PULL_MAX)
    async with roquet.Consumer(
        job.address, group=job.group, subscribe=job.topic, start="earliest", batch=batch, auto_ack=True
    ) as consumer:
        watching = asyncio.ensure_future(_watch(meter))
        async for messages in consumer.batches(max=batch):
            meter.add(0, len(messages))
            if meter.is_over:
                break
        await watching


# --- the synchronous client


def _send_sync(job: Job, meter: Meter) -> None:
    body = b"x" * job.body_bytes
    with roquet.sync.Producer(job.address, group=PRODUCER_GROUP) as producer:
        _in_threads(job, meter, lambda: len([producer.send(job.topic, body)]))


def _send_batch_sync(job: Job, meter: Meter) -> None:
    bodies = [b"x" * job.body_bytes] * job.batch
    with roquet.sync.Producer(job.address, group=PRODUCER_GROUP) as producer:
        _in_threads(job, meter, lambda: len(producer.send_batch(job.topic, bodies)))


def _in_threads(job: Job, meter: Meter, act: Callable[[], int]) -> None:
    """Repeat something in every thread until the time is over; it returns how many messages that was."""

    def go_on(slot: int) -> None:
        while not meter.is_over and meter.failures < FAILURES_MAX:
            try:
                meter.add(slot, act())
            except roquet.RoquetError:
                meter.failures += 1

    threads = [threading.Thread(target=go_on, args=(slot,)) for slot in range(job.senders)]
    for thread in threads:
        thread.start()
    _watch_sync(meter)
    for thread in threads:
        thread.join()


def _watch_sync(meter: Meter) -> None:
    while meter.pass_time():
        time.sleep(POLL_S)
    meter.print_report()


def _receive_sync(job: Job, meter: Meter) -> None:
    with roquet.sync.Consumer(
        job.address, group=job.group, subscribe=job.topic, start="earliest"
    ) as consumer:
        watching = threading.Thread(target=_watch_sync, args=(meter,))
        watching.start()
        for message in consumer:
            message.ack()
            meter.add(0, 1)
            if meter.is_over:
                break
        watching.join()


def _receive_batch_sync(job: Job, meter: Meter) -> None:
    batch = min(job.batch, PULL_MAX)
    with roquet.sync.Consumer(
        job.address, group=job.group, subscribe=job.topic, start="earliest", batch=batch, auto_ack=True
    ) as consumer:
        watching = threading.Thread(target=_watch_sync, args=(meter,))
        watching.start()
        for messages in consumer.batches(max=batch):
            meter.add(0, len(messages))
            if meter.is_over:
                break
        watching.join()


_ASYNC = {"send": _send, "send_batch": _send_batch, "receive": _receive, "receive_batch": _receive_batch}
_SYNC = {
    "send": _send_sync,
    "send_batch": _send_batch_sync,
    "receive": _receive_sync,
    "receive_batch": _receive_batch_sync,
}

if __name__ == "__main__":
    main()
