"""SYNC_FLUSH seen from outside: the system calls of a real broker, in the order that the kernel saw them.

    pwrite64(log, … record …) ends ─▶ fdatasync(log) begins ─▶ ends ─▶ write(socket, … msgId …) begins

That must hold for every acknowledged message. The same check on a broker whose fdatasync does nothing, and on
one with ASYNC_FLUSH, finds every message unsafe: it can fail. Reference: strace(1), whose lines are in the
order in which it stopped the threads, so that line numbers serve as the clock.
"""

import asyncio
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from roquet.client import connect
from tests.peers import roquet
from tests.peers.child import wait_for
from tests.peers.jars import MissingTool

pytestmark = pytest.mark.process

WRITERS = 8
MESSAGES_EACH = 15
TRACE_END_TIMEOUT_S = 120.0
NO_FDATASYNC = "import os; os.fdatasync = lambda fd: None; from roquet.cli.main import main; main()"

LINE = re.compile(r"(?P<thread>\d+) +[\d.]+ (?P<text>.*)")
BEGIN = re.compile(r"(?P<name>\w+)\(\d+<(?P<file>[^>]*)>")
RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>")


class SystemCall(NamedTuple):
    """One call, with the numbers of the lines on which it began and ended; `text` holds its arguments."""

    name: str
    file: str
    begin: int
    end: int
    text: str


class Acknowledged(NamedTuple):
    """A message whose body is `marker`, and the id that its answer carried."""

    marker: str
    msg_id: str


def read_trace(lines: Iterable[str]) -> Iterator[SystemCall]:
    """Return the finished calls of a trace, those that other threads interrupted joined again."""
    open_calls: dict[str, SystemCall] = {}
    for number, line in enumerate(lines):
        parts = LINE.match(line)
        assert parts is not None, f"strace wrote {line[:200]!r}"
        thread, text = parts["thread"], parts["text"]
        begun = BEGIN.match(text)
        if begun is not None:
            call = SystemCall(begun["name"], begun["file"], number, number, text)
            if text.endswith("<unfinished ...>"):
                open_calls[thread] = call
            else:
                yield call
        elif RESUMED.match(text) and thread in open_calls:
            call = open_calls.pop(thread)
            yield call._replace(end=number, text=call.text + text)


def unsafe(trace: Sequence[SystemCall], messages: Sequence[Acknowledged]) -> list[str]:
    """Return a sentence for each message whose answer left before its record was synced."""
    syncs: dict[str, list[SystemCall]] = defaultdict(list)
    writes: list[SystemCall] = []
    answers: list[SystemCall] = []
    for call in trace:
        if call.name == "fdatasync" and call.text.endswith("= 0"):
            syncs[call.file].append(call)
        elif call.name == "pwrite64" and "/commitlog/" in call.file:
            writes.append(call)
        elif call.name != "pwrite64" and call.file.startswith(("socket:", "TCP:")):
            answers.append(call)
    complaints = []
    for message in messages:
        written = _only(writes, message.marker)
        answered = _only(answers, f'msgId\\":\\"{message.msg_id}\\"')
        is_safe = any(written.end < sync.begin and sync.end < answered.begin for sync in syncs[written.file])
        if not is_safe:
            complaints.append(f"{message.marker} was answered before it was synced")
    return complaints


def _only(calls: Sequence[SystemCall], text: str) -> SystemCall:
    (call,) = [call for call in calls if text in call.text]
    return call


async def send_all(namesrv: str) -> list[Acknowledged]:
    """Send from eight writers at once, so that syncs are shared, and return what was acknowledged."""

    async def write(number: int) -> list[Acknowledged]:
        done = []
        async with connect(namesrv) as client:
            for count in range(MESSAGES_EACH):
                marker = f"<marker {number} {count}>"
                body = marker.encode() + b"." * (500 * number)
                sent = await client.send("synced", body, queue_id=number % 4)
                done.append(Acknowledged(marker, sent.msg_id))
        return done

    return [each for done in await asyncio.gather(*map(write, range(WRITERS))) for each in done]


def run_traced(folder: Path, program: Sequence[str], flush_mode: str) -> list[str]:
    """Run a broker under strace, send to it, and return the messages that the trace shows to be unsafe."""
    strace = shutil.which("strace")
    if strace is None:
        raise MissingTool("`strace` is not on the PATH: install it")
    folder.mkdir()
    file = folder / "trace"
    # -D makes strace a child of what it traces: the process that we start and stop is the broker itself.
    tracer = [strace, "-D", "-f", "-ttt", "-y", "-s", "1000000", "-o", str(file)]
    tracer += ["-e", "trace=fdatasync,pwrite64,sendto,sendmsg,write,writev", "-e", "signal=none"]
    settings = {"flushDiskType": flush_mode, "mappedFileSizeCommitLog": str(1 << 16)}
    node = roquet.start_up(folder / "store", settings=settings, command=[*tracer, *program])
    try:
        messages = asyncio.run(send_all(node.namesrv))
        node.stop()
    finally:
        node.kill()
    return unsafe(list(read_trace(_whole(file, node.process.pid))), messages)


def _whole(file: Path, pid: int) -> list[str]:
    """Return the lines of the trace once the tracer has written the last: that the process has ended."""
    lines: list[str] = []

    def is_whole() -> bool:
        lines[:] = file.read_text(errors="replace").splitlines()
        last = lines[-1] if lines else ""
        return last.startswith(f"{pid} ") and last.endswith("+++ exited with 0 +++")

    wait_for(is_whole, "the end of the trace", TRACE_END_TIMEOUT_S)
    return lines


def test_no_answer_leaves_before_its_record_is_synced(tmp_path: Path) -> None:
    assert run_traced(tmp_path / "sync", roquet.program(), "SYNC_FLUSH") == []


def test_without_fdatasync_the_same_check_complains_of_every_message(tmp_path: Path) -> None:
    python = [sys.executable, "-c", NO_FDATASYNC]
    assert len(run_traced(tmp_path / "none", python, "SYNC_FLUSH")) == WRITERS * MESSAGES_EACH


def test_with_async_flush_the_same_check_complains(tmp_path: Path) -> None:
    assert run_traced(tmp_path / "async", roquet.program(), "ASYNC_FLUSH") != []
