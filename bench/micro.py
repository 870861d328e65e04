"""`python -m bench.micro`: CPU µs for each message in our own code, without sockets and without Java.

    frame split · header encode · record encode · record scan     one codec each
    send path    frames ─▶ Link ─▶ Router ─▶ handler ─▶ Store ─▶ answers, on a real broker in this process

Runs itself twice, with the compiled kernels and with ROQUET_PURE=1, and prints both columns. Each number is
the best of some repeats: what else runs on the machine can only add to it. The messages are those of Apache's
benchmark producer.
"""

import asyncio
import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from roquet.broker.app import Broker
from roquet.cli.kernels import kernels
from roquet.model.message import Draft, Host
from roquet.runtime.addresses import Addresses
from roquet.runtime.loop import loop_factory
from roquet.runtime.real import real_ports
from roquet.runtime.settings import BrokerSettings
from roquet.store.format import record
from roquet.store.settings import DELAY_LEVELS_MS, GIB, StoreSettings
from roquet.wire.codes import FLAG_REPLY
from roquet.wire.frame import BINARY, JSON, Frame, join, split
from tests.peers.jars import ROOT
from tests.peers.ports import free_broker_port

MESSAGES = 4_096
REPEATS = 7
SENT_MESSAGES = 16_384
SENT_REPEATS = 5
FRAMES_PER_READ = 16
BODY = b"x" * 128
NOW_MS = 1_700_000_000_000
LOOPBACK = Host(bytes((127, 0, 0, 1)), 10911)

Costs = dict[str, float]
"""CPU µs a message, by what was measured."""


def main() -> int:
    """Measure in this process when told so, otherwise in two children, and print the table."""
    if sys.argv[1:] == ["--here"]:
        json.dump({"kernels": kernels(), "costs": measure()}, sys.stdout)
        return 0
    compiled, pure = (_in_child(setting) for setting in ("0", "1"))
    loaded = [name for name, is_compiled in compiled["kernels"].items() if is_compiled]
    print(f"CPU µs a message; compiled here: {', '.join(loaded) or 'nothing'}")
    print(f"{'':<24}{'compiled':>10}{'pure':>10}")
    for name, cost in compiled["costs"].items():
        print(f"{name:<24}{cost:>10.2f}{pure['costs'][name]:>10.2f}")
    return 0


def measure() -> Costs:
    """Return the costs with the kernels that this process has loaded."""
    logging.disable(logging.CRITICAL)
    costs: Costs = {}
    for name, encoding in (("frame split, binary", BINARY), ("frame split, JSON", JSON)):
        stream = b"".join(join(send_frame(number, encoding)) for number in range(MESSAGES))
        costs[name] = _cheapest(partial(split, stream))
    answers = [answer_frame(number) for number in range(MESSAGES)]
    costs["header encode, JSON"] = _cheapest(lambda: [join(answer) for answer in answers])
    drafts = [_draft(number) for number in range(MESSAGES)]
    costs["record encode"] = _cheapest(lambda: [_encode(draft) for draft in drafts])
    log = b"".join(map(_encode, drafts))
    end = len(log) + record.BLANK_SIZE_BYTES_MIN
    assert len(_scan(log, end).entries) == MESSAGES
    costs["record scan"] = _cheapest(lambda: _scan(log, end))
    with asyncio.Runner(loop_factory=loop_factory(os.environ)) as runner:
        costs["send path, in process"] = runner.run(_send_path())
    return costs


def send_frame(number: int, encoding: int) -> Frame:
    """Return the request that Apache's benchmark producer would send as this number."""
    properties = f"UNIQ_KEY\x017F00000100002A139A8B0B3B{number:08X}\x02WAIT\x01true\x02"
    fields = {
        "a": "benchmark_producer",
        "b": "BenchmarkTest",
        "c": "TBW102",
        "d": "4",
        "e": str(number % 1024),
        "f": "0",
        "g": str(NOW_MS),
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
    }
    return Frame(310, number, 0, fields, BODY, encoding=encoding)


def answer_frame(number: int) -> Frame:
    """Return the answer to such a request."""
    fields = {
        "msgId": f"7F00000100002A9F{number:016X}",
        "queueId": str(number % 1024),
        "queueOffset": str(number // 1024),
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }
    return Frame(0, number, FLAG_REPLY, fields)


class Sink(asyncio.Transport):
    """A transport that keeps what is written and counts the answers in it."""

    def __init__(self) -> None:
        super().__init__()
        self._unread: list[bytes] = []
        self._answers = 0

    def answers(self) -> int:
        """Return how many frames have been written so far."""
        written = b"".join(self._unread)
        self._unread.clear()
        at = 0
        while at < len(written):
            at += 4 + int.from_bytes(written[at : at + 4], "big")
            self._answers += 1
        return self._answers

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._unread.append(bytes(data))

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 5_555) if name in ("peername", "sockname") else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing here is ever full."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing to close."""

    def abort(self) -> None:
        raise AssertionError("the broker cut the connection: it did not understand a request")


async def _send_path() -> float:
    """Return the CPU µs a message from received bytes to written answers, all of the broker included."""
    reads = [
        b"".join(join(send_frame(first + step, BINARY)) for step in range(FRAMES_PER_READ))
        for first in range(0, SENT_MESSAGES * (1 + SENT_REPEATS), FRAMES_PER_READ)
    ]
    turn = SENT_MESSAGES // FRAMES_PER_READ
    found = []
    with tempfile.TemporaryDirectory(prefix="roquet-micro-") as folder:
        broker = Broker(
            BrokerSettings(broker_name="broker-a", listen_port=free_broker_port()),
            StoreSettings(root_dir=folder, log_file_size_bytes=GIB // 4, disk_max_used_percent=95),
            Addresses(("127.0.0.1",), "127.0.0.1", "127.0.0.1", ()),
            real_ports(),
            os.getpid(),
        )
        await broker.start()
        try:
            sink = Sink()
            link = broker._server._accept()
            link.connection_made(sink)
            with _quiet_collector():
                for number in range(1 + SENT_REPEATS):
                    began_s = time.process_time()
                    await _feed(link, sink, reads[number * turn : (number + 1) * turn])
                    found.append(time.process_time() - began_s)
        finally:
            await broker.close()
    return min(found[1:]) / SENT_MESSAGES * 1_000_000  # the first turn creates 1024 queues


async def _feed(link: asyncio.Protocol, sink: Sink, reads: list[bytes]) -> None:
    answers = sink.answers() + len(reads) * FRAMES_PER_READ
    for read in reads:
        link.data_received(read)
        await asyncio.sleep(0)
    while sink.answers() < answers:
        await asyncio.sleep(0)


def _draft(number: int) -> Draft:
    properties = f"UNIQ_KEY\x017F00000100002A139A8B0B3B{number:08X}\x02WAIT\x01true\x02".encode()
    return Draft("BenchmarkTest", number % 1024, BODY, properties, 0, 0, NOW_MS, LOOPBACK)


_RECORD_SIZE_BYTES = len(record.encode(_draft(0), 0, 0, NOW_MS, LOOPBACK))


def _encode(draft: Draft) -> bytes:
    # The n-th draft of a log whose records are all of one length; its number is in its unique key.
    number = int(draft.properties[33:41], 16)
    return record.encode(draft, number // 1024, number * _RECORD_SIZE_BYTES, NOW_MS, LOOPBACK)


def _scan(log: bytes, end: int) -> record.Scan:
    return record.scan(log, 0, end, True, DELAY_LEVELS_MS, MESSAGES)


def _cheapest(work: Callable[[], object]) -> float:
    """Return the least CPU µs a message that one of some repeats needed."""
    found = []
    with _quiet_collector():
        for _ in range(REPEATS):
            began_s = time.process_time()
            work()
            found.append(time.process_time() - began_s)
    return min(found) / MESSAGES * 1_000_000


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep what exists out of Python's garbage collection, which would count as cost of what is measured."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _in_child(pure: str) -> dict[str, dict[str, float]]:
    argv = [sys.executable, "-m", "bench.micro", "--here"]
    environment = {**os.environ, "ROQUET_PURE": pure}
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, text=True, check=True, env=environment, cwd=Path(ROOT), timeout=300
    )
    printed: dict[str, dict[str, float]] = json.loads(done.stdout)
    return printed


if __name__ == "__main__":
    sys.exit(main())
