"""Stored messages as new ones: what goes along, under which keys, how fast; used to replay and to resend.

    rows of a topic ─▶ columns of the sink: topic body tag keys properties … ─▶ paced ─▶ format roquet

Orders to the broker that were carried out (a delay, a transaction, a wait) are left behind: given again they
would be carried out again. Where a message came from goes along in the property REPLAYED_FROM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from roquet.client.admin.revival import SPENT
from roquet.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_PREFIX, SYSTEM_TOPICS
from roquet.spark.access import Turns
from roquet.spark.pipelines.sources import collected
from roquet.spark.pipelines.summary import Live, Row

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

FROM: Final = "REPLAYED_FROM"
STEPS_PER_SECOND: Final = 10
"""How evenly a limited rate is spread."""

Keys = Literal["original", "new"]
Delivery = Literal["at-least-once", "exactly-once"]


class How(NamedTuple):
    """How messages are sent."""

    namesrv: str
    to: str = ""
    """Topic for all; empty leaves them theirs."""
    keys: Keys = "original"
    per_second: float = 0.0
    """0 does not limit."""
    delivery: Delivery = "at-least-once"
    name: str = ""
    """Of the run: new keys begin with it, and exactly once it has no second effect."""


def is_sendable(column: str = "topic") -> Column:
    """Return the condition that a topic can be sent to: it is a user's own."""
    from pyspark.sql import functions as f

    topic = f.col(column)
    is_inner = topic.isin(*sorted(SYSTEM_TOPICS)) | topic.isNull()
    for prefix in (SYSTEM_PREFIX, DLQ_PREFIX, RETRY_PREFIX):
        is_inner = is_inner | topic.startswith(prefix)
    return ~is_inner


def counts(frame: DataFrame) -> list[Row]:
    """Return what would be sent, by topic and queue: messages, bytes of bodies, times."""
    from pyspark.sql import functions as f

    found = frame.groupBy("topic", "broker", "queue_id").agg(
        f.count("*").alias("messages"),
        f.coalesce(f.sum(f.length("body")), f.lit(0)).alias("body_bytes"),
        f.min("store_time").alias("first_stored"),
        f.max("store_time").alias("last_stored"),
    )
    return collected(found.orderBy("topic", "broker", "queue_id"))


def outgoing(frame: DataFrame, how: How) -> DataFrame:
    """Return stored messages as the sink takes them; a column `target` says where each goes."""
    from pyspark.sql import functions as f

    target = f.col("target" if "target" in frame.columns else "topic")
    origin = f.concat_ws("/", "topic", "broker", f.col("queue_id"), f.col("queue_offset"))
    spent = [f.lit(name) for name in sorted(SPENT | {FROM, "__SHARDINGKEY"})]
    kept = f.map_filter("properties", lambda name, _: ~name.isin(*spent))
    new_key = f.concat_ws("-", f.lit(how.name), f.col("broker"), f.col("queue_id"), f.col("queue_offset"))
    ordering = f.col("properties").getItem("__SHARDINGKEY")
    return frame.select(
        (f.lit(how.to) if how.to else target).alias("topic"),
        "body",
        "tag",
        (f.array(new_key) if how.keys == "new" else f.col("keys")).alias("keys"),
        f.map_concat(kept, f.create_map(f.lit(FROM), origin)).alias("properties"),
        ordering.alias("ordering_key"),
    )


SINK_TYPES: Final = (
    "topic string, body binary, tag string, keys array<string>, properties map<string,string>, "
    "ordering_key string"
)


def send(frame: DataFrame, how: How, live: Live) -> int:
    """Send stored messages; return how many rows went. Raises what the sink raises."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    options = {"namesrv": how.namesrv, "delivery": how.delivery}
    if how.delivery == "exactly-once":
        options["queryId"] = how.name
        if was_sent(options):
            live.note(f"run {how.name} was sent before: nothing is sent again")
            return 0
    seen = Observation("sent")
    rows = outgoing(frame, how)
    if how.per_second:
        rows = rows.coalesce(1).mapInArrow(partial(paced, per_second=how.per_second), SINK_TYPES)
    rows = rows.observe(seen, f.count(f.lit(1)).alias("rows"))
    limit = f", {how.per_second:,.0f}/s at most" if how.per_second else ""
    live.say(f"sending{limit}")
    rows.write.format("roquet").options(**options).mode("append").save()
    return int(seen.get["rows"])


def was_sent(options: Mapping[str, str]) -> bool:
    """Say whether a run of that name was committed; raises RoquetError."""
    from roquet.spark.ledger import Ledger
    from roquet.spark.manifest import NO_EPOCH
    from roquet.spark.sink import SINK_OPTIONS, wires_of

    given = {**SINK_OPTIONS.parse(options), "client": {}}
    wires = wires_of(given)

    async def ask() -> bool:
        async with wires.cluster() as cluster:
            ledger = Ledger(wires.bulk(cluster), given["manifestTopic"], given["queryId"], wires.timeout_s)
            return (await ledger.begin()).state.committed > NO_EPOCH

    with Turns() as turns:
        return turns.run(ask())


def paced(batches: Iterable[pa.RecordBatch], per_second: float) -> Iterator[pa.RecordBatch]:
    """Let rows through so fast and no faster; runs in a task."""
    from roquet.runtime.clock import RealClock

    clock = RealClock()
    with Turns() as turns:
        yield from pace(batches, per_second, clock.monotonic, lambda when: turns.run(clock.sleep_until(when)))


def pace(
    batches: Iterable[Any], per_second: float, now: Callable[[], float], wait_until: Callable[[float], object]
) -> Iterator[Any]:
    """Cut batches into small steps and hold each back until its time."""
    step = max(1, int(per_second / STEPS_PER_SECOND))
    began, sent = now(), 0
    for batch in batches:
        for at in range(0, batch.num_rows, step):
            due = began + sent / per_second
            if due > now():
                wait_until(due)
            part = batch.slice(at, step)
            sent += part.num_rows
            yield part
