"""`python -m bench.sdk.pypi JOB`: the package `rocketmq-python-client` at work, under its own interpreter.

    send      `senders` threads, each waits for its receipt before it sends again
    receive   its PushConsumer with twenty threads and a listener that counts

It has no batches. Runs in the environment that `proxy.client_python` makes: nothing of Roquet can be imported
here. Reference: rocketmq-python-client 5.1, README.
"""

import importlib
import os
import sys
import threading
import time
from typing import Any

from bench.sdk.meter import POLL_S, Job, Meter, read_job

CONSUMER_THREADS = 20
FAILURES_MAX = 1_000


def main() -> None:
    job = read_job(sys.argv[1])
    meter = Meter(job)
    {"send": _send, "receive": _receive}[job.work](job, meter)
    sys.stdout.flush()
    os._exit(0)  # its threads do not end by themselves


def _send(job: Job, meter: Meter) -> None:
    rocketmq = _package()
    body = b"x" * job.body_bytes
    producer = rocketmq.Producer(_configuration(job), [job.topic])
    producer.startup()

    def go_on(slot: int) -> None:
        while not meter.is_over and meter.failures < FAILURES_MAX:
            message = rocketmq.Message()
            message.topic = job.topic
            message.body = body
            try:
                producer.send(message)
            except Exception as error:
                meter.failures += 1
                print(f"refused: {error!r}", flush=True)
            else:
                meter.add(slot, 1)

    for slot in range(job.senders):
        threading.Thread(target=go_on, args=(slot,), daemon=True).start()
    _watch(meter)


def _receive(job: Job, meter: Meter) -> None:
    rocketmq = _package()
    lock = threading.Lock()
    listener: Any = rocketmq.MessageListener

    class Counting(listener):  # type: ignore[misc]
        def consume(self, message: Any) -> Any:
            with lock:
                meter.add(0, 1)
            return rocketmq.ConsumeResult.SUCCESS

    consumer = rocketmq.PushConsumer(
        _configuration(job),
        job.group,
        Counting(),
        {job.topic: rocketmq.FilterExpression()},
        consumption_thread_count=CONSUMER_THREADS,
    )
    consumer.startup()
    _watch(meter)


def _package() -> Any:
    return importlib.import_module("rocketmq")  # not in the environment that checks types


def _configuration(job: Job) -> Any:
    rocketmq = _package()
    return rocketmq.ClientConfiguration(job.address, rocketmq.Credentials())


def _watch(meter: Meter) -> None:
    while meter.pass_time():
        time.sleep(POLL_S)
    meter.print_report()


if __name__ == "__main__":
    main()
