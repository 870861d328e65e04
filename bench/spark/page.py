"""The Spark work as a table, each line beside its ceiling of the same session; pure."""

from bench.figures import Bound
from bench.lines import Line, Want, lines_of
from bench.results import Tally
from bench.table import Place, origin

PLACE = Place("<!-- bench:spark:begin -->", "<!-- bench:spark:end -->")

_READY = "ready Arrow batches"

LINES = (
    Line(
        "batch read from Roquet's broker, rows/s",
        "batch.roquet",
        "ceiling.all",
        _READY,
        Want(Bound.AT_LEAST, 500_000),
    ),
    Line(
        "batch read from Apache's broker, rows/s",
        "batch.apache",
        "apache.loop",
        "plain loop of 32-message pulls",
        Want(Bound.AT_LEAST, 2, "ratio"),
    ),
    Line(
        "`roquet-store`, all columns, rows/s",
        "store.all",
        "ceiling.all",
        _READY,
        Want(Bound.AT_LEAST, 900_000),
    ),
    Line(
        "`roquet-store`, without properties, rows/s",
        "store.lean",
        "ceiling.lean",
        _READY,
        Want(Bound.AT_LEAST, 2_000_000),
    ),
    Line(
        "`roquet.store_reader` to Arrow, one core, no Spark, rows/s",
        "reader",
        "ceiling.bytes",
        "the bytes alone",
        Want(Bound.AT_LEAST, 2_500_000),
    ),
    Line(
        "stream, AvailableNow, to Parquet, rows/s",
        "stream",
        "ceiling.stream",
        _READY,
        Want(Bound.AT_LEAST, 0.8, "ratio"),
    ),
    Line(
        "sink, at least once, rows/s",
        "sink.at_least_once",
        "ceiling.sink",
        "rows dropped",
        Want(Bound.AT_LEAST, 100_000),
    ),
    Line(
        "sink, exactly once, rows/s",
        "sink.exactly_once",
        "ceiling.sink",
        "rows dropped",
        Want(Bound.AT_LEAST, 20_000),
    ),
    Line("micro-batch of a topic with 2 queues, ms", "micro.few", "ceiling.micro", "ready batches, 2 tasks"),
    Line(
        "micro-batch of a topic with 64 queues, ms",
        "micro.many",
        "micro.few",
        "2 queues",
        Want(Bound.AT_MOST, 1.3, "ratio"),
    ),
)


def render(tally: Tally) -> str:
    """Return the table and a sentence about where it comes from."""
    notes = "\n".join(f"- Not measured: {what}: {why}" for what, why in sorted(tally.notes.items()))
    where = f"{origin(tally.about, len(tally.rounds))}; Spark at local[2], 128 B bodies."
    blocks = ["\n".join(lines_of(LINES, tally.rounds)), notes, where]
    return "\n\n".join(block for block in blocks if block)
