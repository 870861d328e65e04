"""The kinds of messages that need more than a place in the log: delayed, timed, transactional.

Each kind is a program of Apache's benchmark with its words, the parser of its lines and the lines that count:

    line 1 ─▶ nine seconds of warm-up, cut          line `measured_line` ─▶ the nine seconds that are told

A long delay tells what it costs to put a message aside; the shortest one tells what is left for senders while
the broker also delivers. Timed messages fall due two minutes after the start, so none does while we measure.
Reference: org.apache.rocketmq.example.benchmark.{Producer, TransactionProducer, timer.TimerProducer}, 5.5.0.
"""

from collections.abc import Callable
from typing import NamedTuple

from bench.figures import Measure
from bench.probe import TOPIC
from bench.reports import REPORT_SPAN_S, Report, sent_reports, timed_reports, transacted_reports

SENDER_THREADS = 64
BODY_BYTES = 128
SHORTEST_LEVEL = 1
LONGEST_LEVEL = 18
"""Of Apache's default levels: one second, two hours."""

_SENDER_WORDS = ("-t", TOPIC, "-w", str(SENDER_THREADS), "-s", str(BODY_BYTES), "-ri", "1000")
_EACH_SECOND = 1 + REPORT_SPAN_S
"""The line that begins where line 1 ends, of a program that prints one each second."""
_EACH_TEN_SECONDS = 2


class Kind(NamedTuple):
    """One kind of message and the program that sends it."""

    name: str
    measure: Measure
    program: str
    words: tuple[str, ...]
    parse: Callable[[str], list[Report]]
    measured_line: int


def _delayed(name: str, measure: Measure, level: int) -> Kind:
    words = (*_SENDER_WORDS, "-d", "true", "-e", str(level))
    return Kind(name, measure, "Producer", words, sent_reports, _EACH_SECOND)


KINDS = (
    _delayed("delayed", Measure.DELAYED, LONGEST_LEVEL),
    _delayed("delayed-due", Measure.DELAYED_DUE, SHORTEST_LEVEL),
    Kind(
        "timed",
        Measure.TIMED,
        "timer.TimerProducer",
        ("-t", TOPIC, "-tc", str(SENDER_THREADS), "-ms", str(BODY_BYTES)),
        timed_reports,
        _EACH_TEN_SECONDS,
    ),
    Kind(
        "transactional",
        Measure.TRANSACTED,
        "TransactionProducer",
        _SENDER_WORDS,
        transacted_reports,
        _EACH_SECOND,
    ),
)
