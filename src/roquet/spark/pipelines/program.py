"""Run one pipeline as a program: its arguments, its Spark session, its summary, its exit code.

    0 done · 1 it could not be done · 2 wrong usage · 3 no server reachable · 130 Ctrl-C

spark-submit gives the session its master and its resources; without it the session is local, on all
cores of this machine. What a user did wrong, or what is not there, is one sentence on stderr. SIGTERM, which
ends programs that follow a topic, does what Ctrl-C does.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from roquet.client.errors import Misuse, RoquetError, TimedOut, Unreachable
from roquet.spark.options import OptionError
from roquet.spark.pipelines.arguments import parse
from roquet.spark.pipelines.progress import beating
from roquet.spark.pipelines.summary import Live, Refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from roquet.spark.pipelines import Pipeline

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
INTERRUPTED: Final = 130

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the driver that it starts."""
_OURS: Final = re.compile(
    r"(?:roquet[\w.]*|pyspark[\w.]*|\w+)?\.?"
    r"(OptionError|DataLost|BadOffsets|NotAStore|DamagedStore|Refused|Misuse|NoRoute|NamesUnreachable"
    r"|Unreachable|TimedOut|NotAllowed|NotFound|SendFailed): (?P<words>[^\n]+)"
)
_ALLOW_LOSS: Final = "With the option failOnDataLoss=false the query goes on"
"""How the source puts it, for who gives options; here there are arguments."""
_OF_ROWS: Final = (
    "ArithmeticException",
    "NumberFormatException",
    "DateTimeException",
    "SparkRuntimeException",
)
"""What Spark raises when a condition meets a row that it cannot be asked of: `tag > 5`."""
_LOST_SERVERS: Final = ("NamesUnreachable", "Unreachable", "TimedOut")


def main(pipeline: type[Any], texts: Sequence[str] | None = None) -> int:
    """Run a pipeline with arguments of the command line; return the exit code."""
    try:
        found, as_json = parse(pipeline, sys.argv[1:] if texts is None else texts)
    except OptionError as error:
        return _fail(str(error), USAGE)
    return execute(found, as_json)


def execute(pipeline: Pipeline, as_json: bool) -> int:
    """Run a pipeline in a session of its own and print its summary; return the exit code."""
    live = Live()
    name = type(pipeline).__name__
    try:
        live.say(f"{name}: starting Spark")
        spark = open_session(f"roquet {name}")
        live.clear()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: _break_off(live))
        try:
            with beating(live, spark):
                summary = pipeline.run(spark, live)
        except Exception:
            spark.stop()
            raise
        live.clear()
        spark.stop()
    except (
        KeyboardInterrupt
    ):  # amid a question to Spark, which can be asked no more; it ends with this process
        live.clear()
        return _fail("broken off", INTERRUPTED)
    except Exception as error:
        told = explain(error)
        if told is None:
            raise
        live.clear()
        return _fail(*told)
    sys.stdout.write((summary.as_json() if as_json else summary.as_text()) + "\n")
    sys.stdout.flush()
    return DONE


def _break_off(live: Live) -> None:
    """Ask the work to end, or interrupt it; Spark's own handler would ask the JVM amid another question."""
    # py4j tells its own and the root logger at length of an answer that nobody waits for any more.
    logging.getLogger().addFilter(lambda _: False)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    live.stop()


def open_session(name: str) -> SparkSession:
    """Return a session: the one of spark-submit, or a local one; raises Refused without Spark."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise Refused("pyspark is not installed: pip install 'roquet[spark]'") from None
    from roquet.spark import register

    # Workers otherwise run the system's python3, which may not have roquet.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if SUBMITTED not in os.environ:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master(os.environ.get("SPARK_MASTER", "local[*]"))
        builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "8")
        builder = builder.config("spark.ui.showConsoleProgress", "false")  # the live line has its place
    spark: SparkSession = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel(os.environ.get("ROQUET_SPARK_LOG", "ERROR"))
    register(spark)
    return spark


def explain(error: BaseException) -> tuple[str, int] | None:
    """Return an error as one sentence and an exit code; None when it is a bug that must show its trace."""
    if isinstance(error, Unreachable | TimedOut):
        return str(error), UNREACHABLE
    if isinstance(error, OptionError | Misuse):
        return str(error), USAGE
    if isinstance(error, RoquetError | Refused):
        return str(error), FAILED
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return None
    text = str(error)
    if found := _OURS.search(text):
        kind = found.group(1)
        words = found.group("words").strip().replace(_ALLOW_LOSS, "`archive --allow-loss` goes on")
        return words, UNREACHABLE if kind in _LOST_SERVERS else USAGE if kind == "OptionError" else FAILED
    sentence = " ".join(text.split("\n")[0].split())
    if type(error).__name__ in ("AnalysisException", "ParseException"):
        return sentence, USAGE
    if type(error).__name__ in _OF_ROWS and sentence.startswith("["):
        return sentence, FAILED
    return None


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"roquet: {' '.join(sentence.split())}\n")
    sys.stderr.flush()
    return code
