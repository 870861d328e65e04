"""The load: Apache's benchmark producers and consumer, and our histogram of latencies, each in its own JVM.

The rates and the mean latency come from Apache's programs, read while they run; percentiles come from
`java/roquet/bench/Latencies.java`, since Apache's print none. All use 64 threads, bodies of 128 bytes, the
topic BenchmarkTest (1024 queues, known to both brokers) and binary headers. The flags of the JVM are those
of Apache's own scripts. Reference: benchmark/producer.sh, benchmark/runclass.sh, 5.5.0.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.kinds import BODY_BYTES, SENDER_THREADS, Kind
from bench.probe import TOPIC
from bench.process_info import CpuTrace
from bench.reports import REPORT_SPAN_S, Report, batched_reports, combine, consumed_reports, sent_reports
from tests.peers import jars
from tests.peers.child import Child, ChildError

CLIENT_JVM = ["-server", "-Xms1g", "-Xmx1g", "-Xmn256m"]
BINARY_HEADERS = "-Drocketmq.serialize.type=ROCKETMQ"
"""What all but the timer's program choose by themselves."""
CONSUMER_GROUP = "bench_consumer"
CONSUMER_THREADS = 20
LINE_TIMEOUT_S = 60.0
FIRST_LINE_S = REPORT_SPAN_S + 1
"""When the first line comes; it covers all of that but the first second."""
CONSUMED_LINE = 5
"""The line that tells the rate of consumption: it begins five seconds after the start, and ends early
enough for the backlog to last."""
SOURCES = Path(__file__).parent / "java"


class Load(NamedTuple):
    """What a client reported over the measured time, and what the broker used meanwhile."""

    report: Report
    cpu_s_per_million: float
    moved_max: float
    """More messages than the client can have seen by the end of the last window."""


class Latency(NamedTuple):
    p99_ms: float
    failures: int


def send(namesrv: str, home: Path, broker_pid: int, windows: int, at_end: Callable[[], None]) -> Load:
    """Send for ten seconds of warm-up and some windows of nine; `at_end` runs while it still sends."""
    chosen = [1 + number * REPORT_SPAN_S for number in range(1, windows + 1)]
    words = ["-n", namesrv, "-t", TOPIC, "-w", str(SENDER_THREADS), "-s", str(BODY_BYTES), "-ri", "1000"]
    with _start("Producer", home, words) as client:
        load = _measure(client, sent_reports, broker_pid, chosen)
        at_end()
        client.kill()
    return load


def send_kind(kind: Kind, namesrv: str, home: Path, broker_pid: int) -> Load:
    """Send messages of one kind for about ten seconds of warm-up and one window of nine."""
    with _start(kind.program, home, ["-n", namesrv, *kind.words]) as client:
        load = _measure(client, kind.parse, broker_pid, [kind.measured_line])
        client.kill()
    return load


def consume(namesrv: str, home: Path, broker_pid: int) -> Load:
    """Consume a backlog for five seconds of warm-up and one window of nine."""
    words = ["-n", namesrv, "-t", TOPIC, "-g", CONSUMER_GROUP, "-w", str(CONSUMER_THREADS), "-ri", "1000"]
    with _start("Consumer", home, words) as client:
        load = _measure(client, consumed_reports, broker_pid, [CONSUMED_LINE])
        client.kill()
    return load


def own_send(namesrv: str, topic: str, home: Path) -> Load:
    """Send for ten seconds of warm-up and one window of nine; the CPU time is the client's own."""
    words = ["-n", namesrv, "-t", topic, "-w", str(SENDER_THREADS), "-s", str(BODY_BYTES), "-ri", "1000"]
    return _own("Producer", home, words, sent_reports, 1 + REPORT_SPAN_S)


def own_send_batch(namesrv: str, topic: str, home: Path, senders: int, batch: int) -> Load:
    """Do the same with batches."""
    sizes = ["-w", str(senders), "-s", str(BODY_BYTES), "-b", str(batch)]
    words = ["-n", namesrv, "-t", topic, *sizes, "-ri", "1000"]
    return _own("BatchProducer", home, words, batched_reports, 1 + REPORT_SPAN_S)


def own_consume(namesrv: str, topic: str, group: str, home: Path) -> Load:
    """Consume a backlog for five seconds of warm-up and one window of nine; the CPU time is the client's."""
    words = ["-n", namesrv, "-t", topic, "-g", group, "-w", str(CONSUMER_THREADS), "-ri", "1000"]
    return _own("Consumer", home, words, consumed_reports, CONSUMED_LINE)


def latencies(namesrv: str, home: Path, warm_up_s: int, measured_s: int) -> Latency:
    """Send with our own program and return the 99th percentile."""
    home.mkdir(parents=True, exist_ok=True)
    classpath = jars.program_classpath(SOURCES, "bench")
    numbers = map(str, (SENDER_THREADS, BODY_BYTES, warm_up_s, measured_s))
    argv = [*_jvm(home), "-cp", classpath, "roquet.bench.Latencies", namesrv, TOPIC, *numbers]
    with Child("latencies", argv, home / "latencies.out") as client:
        limit_s = LINE_TIMEOUT_S + warm_up_s + measured_s
        client.wait_until(lambda: '"p99_ms"' in client.text(), "its report", limit_s)
        client.kill()
    line = next(line for line in client.text().splitlines() if '"p99_ms"' in line)
    report = json.loads(line)
    return Latency(float(report["p99_ms"]), int(report["failures"]))


def first_complaint(home: Path) -> str:
    """Return the first exception in a client's log, for the reader of a run in which requests failed."""
    log = home / "apache.log"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return next((line.strip() for line in lines if "Exception:" in line), "its log says nothing")


def _own(program: str, home: Path, words: list[str], parse: Callable[[str], list[Report]], line: int) -> Load:
    with _start(program, home, words) as client:
        load = _measure(client, parse, client.pid, [line])
        client.kill()
    return load


def _start(program: str, home: Path, words: list[str]) -> Child:
    home.mkdir(parents=True, exist_ok=True)
    main = f"org.apache.rocketmq.example.benchmark.{program}"
    log = home / f"{program}.out"
    log.unlink(missing_ok=True)
    return Child(program, [*_jvm(home), "-cp", jars.apache_classpath(), main, *words], log)


def _jvm(home: Path) -> list[str]:
    places = [
        f"-Duser.home={home}",
        f"-Drocketmq.client.logRoot={home}",
        f"-Drmq.logback.configurationFile={jars.LOGBACK}",
        "-Djava.net.preferIPv4Stack=true",
    ]
    return [jars.java(), *CLIENT_JVM, BINARY_HEADERS, *places, *jars.OPENS]


def _measure(client: Child, parse: Callable[[str], list[Report]], pid: int, chosen: Sequence[int]) -> Load:
    """Read the chosen lines, counted from 1, each of which covers the nine seconds before it.

    `pid` is the process whose CPU time is told.
    """
    trace = CpuTrace(pid)
    used_cpu_s = 0.0
    for number in chosen:
        now = _wait_for_line(client, parse, number, trace)
        used_cpu_s += trace.used(now - REPORT_SPAN_S, now)
    lines = parse(client.text())
    report = combine([lines[number - 1] for number in chosen])
    messages = report.messages_per_s * REPORT_SPAN_S * len(chosen)
    if not messages:
        raise ChildError(f"{client.name} moved no message\n{client.tail()}")
    moved_max = lines[0].messages_per_s * FIRST_LINE_S + messages
    return Load(report, used_cpu_s / messages * 1_000_000, moved_max)


def _wait_for_line(
    client: Child, parse: Callable[[str], list[Report]], number: int, trace: CpuTrace
) -> float:
    """Wait for a line and return when it was seen, looking at the broker's CPU time meanwhile."""

    def is_there() -> bool:
        trace.look()
        return len(parse(client.text())) >= number

    client.wait_until(is_there, f"line {number}", LINE_TIMEOUT_S)
    return trace.look()
