"""One round of one broker: start it, leave it idle, load it, crash it; numbers out.

    new store:  start ─▶ first send ─▶ stop ─▶ start again ─▶ idle ─▶ Producer ─▶ Latencies ─▶ kill
    new store for each kind of message:  start ─▶ first send ─▶ its producer ─▶ kill
    old store:  copy ─▶ start ─▶ first send in its queue ─▶ Consumer ─▶ kill
                copy without queues and index ─▶ start ─▶ first send in its queue ─▶ kill

Everything that is started is ended here, whatever happens; the files go with their folder.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from bench import clients, kinds, probe, process_info, servers
from bench.figures import Measure
from bench.oldstore import OldStore, copy_log, copy_whole
from bench.process_info import CpuTrace
from bench.servers import Broker, Names, Target
from tests.peers.asking import is_registered
from tests.peers.child import ChildError

START_TIMEOUT_S = 120.0
RECOVERY_TIMEOUT_S = 600.0
REGISTER_TIMEOUT_S = 60.0
BACKLOG_SHARE_MAX = 0.95
"""A consumer that has come so far through the backlog may have waited for messages: no rate is told."""

Numbers = dict[Measure, float]
Say = Callable[[str], None]


class Part(StrEnum):
    """What can be measured by itself; a new start comes with every part of the new store."""

    RESTART = "restart"
    IDLE = "idle"
    SEND = "send"
    LATENCY = "latency"
    RECOVERY = "recovery"
    CONSUME = "consume"
    KINDS = "kinds"


class Plan(NamedTuple):
    """How long each step takes, and which steps there are."""

    parts: frozenset[Part]
    send_windows: int
    latency_warm_up_s: int
    latency_s: int
    settle_s: float
    idle_s: float


FULL = Plan(frozenset(Part), 2, 8, 15, 10.0, 10.0)
QUICK = Plan(frozenset({Part.IDLE, Part.SEND, Part.LATENCY, Part.RECOVERY}), 1, 4, 5, 10.0, 4.0)
ON_NEW_STORE = frozenset({Part.RESTART, Part.IDLE, Part.SEND, Part.LATENCY})
ON_OLD_STORE = frozenset({Part.RECOVERY, Part.CONSUME})


def measure(target: Target, plan: Plan, old: Callable[[], OldStore], say: Say) -> Numbers:
    """Run one round of one target and return its numbers; raises ChildError when a program gives up."""
    parts = plan.parts & {Part.SEND} if target is Target.PURE else plan.parts
    numbers: Numbers = {Measure.FAILURES: 0.0}
    if not parts:
        return numbers
    with tempfile.TemporaryDirectory(prefix="roquet-bench-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        names = servers.start_names(target, folder / "names")
        try:
            if parts & ON_NEW_STORE:
                _on_new_store(target, plan._replace(parts=parts), folder, names, numbers, say)
            if Part.KINDS in parts:
                _kinds(target, folder, names, numbers, say)
            if parts & ON_OLD_STORE:
                _on_old_store(target, plan._replace(parts=parts), folder, names, numbers, say, old())
        finally:
            names.process.kill()
    return numbers


def _on_new_store(target: Target, plan: Plan, folder: Path, names: Names, numbers: Numbers, say: Say) -> None:
    store = folder / "store"
    broker, numbers[Measure.START_FRESH] = _start(target, folder, store, names)
    say(f"{target.value}: took its first message after {numbers[Measure.START_FRESH]:.2f} s")
    try:
        if Part.RESTART in plan.parts:
            broker.process.stop(servers.STOP_TIMEOUT_S)
            broker, numbers[Measure.START_AGAIN] = _start(target, folder, store, names)
            say(f"{target.value}: after a second start, {numbers[Measure.START_AGAIN]:.2f} s")
        if Part.IDLE in plan.parts:
            _idle(broker, plan, numbers)
            say(f"{target.value}: idle, {numbers[Measure.IDLE_ANONYMOUS]:.0f} MiB of anonymous memory")
        _wait_for_route(names, broker)
        if Part.SEND in plan.parts:
            _send(broker, names, plan, folder, numbers)
            say(f"{target.value}: {numbers[Measure.SENDS]:,.0f} sends/s")
            if numbers[Measure.FAILURES]:
                say(f"{target.value}: sends failed: {clients.first_complaint(folder / 'producer')}")
        if Part.LATENCY in plan.parts:
            found = clients.latencies(
                names.address, folder / "latencies", plan.latency_warm_up_s, plan.latency_s
            )
            numbers[Measure.P99] = found.p99_ms
            numbers[Measure.FAILURES] += found.failures
            say(f"{target.value}: 99th percentile {found.p99_ms:.2f} ms")
    finally:
        broker.process.kill()
        shutil.rmtree(store, ignore_errors=True)


def _start(target: Target, folder: Path, store: Path, names: Names) -> tuple[Broker, float]:
    """Start a broker and return it with the seconds to its first accepted send."""
    began_at = time.monotonic()
    broker = servers.launch_broker(target, folder / "broker", store, names.address)
    try:
        accepted = probe.first_send(broker.process, broker.address, began_at, START_TIMEOUT_S)
    except BaseException:
        broker.process.kill()
        raise
    return broker, accepted.took_s


def _idle(broker: Broker, plan: Plan, numbers: Numbers) -> None:
    pid = broker.process.pid
    time.sleep(plan.settle_s)
    found = process_info.memory(pid)
    numbers[Measure.IDLE_ANONYMOUS] = found.anonymous_mib
    numbers[Measure.IDLE_RESIDENT] = found.resident_mib
    trace = CpuTrace(pid)
    began_at = trace.look()
    time.sleep(plan.idle_s)
    ended_at = trace.look()
    numbers[Measure.IDLE_CPU] = trace.used(began_at, ended_at) / (ended_at - began_at)


def _send(broker: Broker, names: Names, plan: Plan, folder: Path, numbers: Numbers) -> None:
    pid = broker.process.pid

    def weigh() -> None:
        found = process_info.memory(pid)
        numbers[Measure.LOADED_ANONYMOUS] = found.anonymous_mib
        numbers[Measure.LOADED_RESIDENT] = found.resident_mib

    load = clients.send(names.address, folder / "producer", pid, plan.send_windows, weigh)
    numbers[Measure.SENDS] = load.report.messages_per_s
    numbers[Measure.MEAN] = load.report.mean_ms
    numbers[Measure.SEND_CPU] = load.cpu_s_per_million
    numbers[Measure.FAILURES] += load.report.failures


def _kinds(target: Target, folder: Path, names: Names, numbers: Numbers, say: Say) -> None:
    """Measure each kind on a store and a broker of its own: what one leaves behind costs the next nothing."""
    for kind in kinds.KINDS:
        store, home = folder / f"store-{kind.name}", folder / kind.name
        broker, _ = _start(target, folder, store, names)
        try:
            _wait_for_route(names, broker)
            load = clients.send_kind(kind, names.address, home, broker.process.pid)
        finally:
            broker.process.kill()
            shutil.rmtree(store, ignore_errors=True)
        numbers[kind.measure] = load.report.messages_per_s
        numbers[Measure.FAILURES] += load.report.failures
        say(
            f"{target.value}: {kind.name}, {load.report.messages_per_s:,.0f} sends/s, "
            f"{load.cpu_s_per_million:.0f} s of broker CPU per million"
        )
        if load.report.failures:
            say(f"{target.value}: {kind.name}, sends failed: {clients.first_complaint(home)}")


def _on_old_store(
    target: Target, plan: Plan, folder: Path, names: Names, numbers: Numbers, say: Say, old: OldStore
) -> None:
    store = folder / "crashed"
    copy_whole(old, store)
    broker, numbers[Measure.RECOVERY] = _recover(target, folder, store, names, old)
    say(f"{target.value}: ready after a crash in {numbers[Measure.RECOVERY]:.2f} s")
    try:
        if Part.CONSUME in plan.parts:
            _wait_for_route(names, broker)
            _consume(broker, names, folder, numbers, old)
            say(f"{target.value}: {numbers.get(Measure.CONSUMED, 0):,.0f} messages consumed/s")
    finally:
        broker.process.kill()
        shutil.rmtree(store, ignore_errors=True)
    if Part.RECOVERY in plan.parts:
        copy_log(old, store)
        broker, numbers[Measure.REBUILD] = _recover(target, folder, store, names, old)
        broker.process.kill()
        say(f"{target.value}: without queues and index in {numbers[Measure.REBUILD]:.2f} s")


def _recover(target: Target, folder: Path, store: Path, names: Names, old: OldStore) -> tuple[Broker, float]:
    """Start a broker on a crashed store; return it and the seconds until a new message is in its queue."""
    began_at = time.monotonic()
    broker = servers.launch_broker(target, folder / "broker", store, names.address)
    try:
        sent = probe.first_send(broker.process, broker.address, began_at, RECOVERY_TIMEOUT_S)
        if sent.queue_offset != old.in_queue(0):
            raise ChildError(
                f"{broker.process.name} put a message at {sent.queue_offset} of queue 0, "
                f"which had {old.in_queue(0)}: it has not recovered the store\n{broker.process.tail()}"
            )
        probe.wait_for_queue(broker.process, broker.address, 0, sent.queue_offset, RECOVERY_TIMEOUT_S)
    except BaseException:
        broker.process.kill()
        raise
    return broker, time.monotonic() - began_at


def _consume(broker: Broker, names: Names, folder: Path, numbers: Numbers, old: OldStore) -> None:
    load = clients.consume(names.address, folder / "consumer", broker.process.pid)
    numbers[Measure.FAILURES] += load.report.failures
    if load.moved_max < old.records * BACKLOG_SHARE_MAX:
        numbers[Measure.CONSUMED] = load.report.messages_per_s
        numbers[Measure.CONSUME_CPU] = load.cpu_s_per_million


def _wait_for_route(names: Names, broker: Broker) -> None:
    broker.process.wait_until(
        lambda: is_registered(names.address, broker.address), "registered", REGISTER_TIMEOUT_S
    )
