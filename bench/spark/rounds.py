"""One round of the Spark work: both brokers with the same messages, and one session that reads and writes.

    Roquet's broker: SparkBench (1 M messages, 8 queues), SparkSink, SparkFew (2 queues), SparkMany (64)
    Apache's broker: SparkBench
    ─▶ `python -m bench.spark.work`, which prints its numbers as it goes

A broker that is not read at the moment idles; Spark has two cores and shares them with the broker it reads.
"""

import itertools
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bench.servers import Target, environment
from bench.site import Site, create_topic, fill, open_site
from bench.spark.work import Task
from tests.peers.child import Child
from tests.peers.jars import ROOT

TOPIC, SINK_TOPIC, FEW, MANY = "SparkBench", "SparkSink", "SparkFew", "SparkMany"
QUEUES = 8
FEW_QUEUES = 2
MANY_QUEUES = 64
TINY_ROWS = 1_280
"""Twenty micro-batches of as many messages as the larger topic has queues."""
TINY_BATCH = TINY_ROWS // MANY_QUEUES
STEP_TIMEOUT_S = 600.0


class Plan(NamedTuple):
    """How many messages there are, and how often each work is repeated."""

    rows: int
    staged_rows: int
    """For delivery exactly once, which takes longest."""
    repeats: int


FULL = Plan(1_000_000, 200_000, 3)
QUICK = Plan(1_000_000, 50_000, 1)


class Round:
    """Numbers of one round, and the reasons for those that are missing."""

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self.plan = plan
        self.say = say
        self.numbers: dict[str, float] = {}
        self.notes: dict[str, str] = {}

    def measure(self) -> None:
        """Start the servers, fill the topics and let the child work; raises ChildError."""
        with open_site(Target.ROQUET) as ours, open_site(Target.APACHE) as apache:
            for site in (ours, apache):
                create_topic(site, TOPIC, QUEUES)
                fill(site, TOPIC, self.plan.rows)
            self.say(f"{self.plan.rows:,} messages in each broker")
            create_topic(ours, SINK_TOPIC, QUEUES)
            for topic, queues in ((FEW, FEW_QUEUES), (MANY, MANY_QUEUES)):
                create_topic(ours, topic, queues)
                fill(ours, topic, TINY_ROWS, TINY_BATCH)
            self._work(ours, apache)

    def _work(self, ours: Site, apache: Site) -> None:
        task = Task(
            roquet=ours.namesrv,
            apache=apache.namesrv,
            store=str(ours.store),
            folder=str(ours.folder / "spark"),
            topic=TOPIC,
            sink_topic=SINK_TOPIC,
            few=FEW,
            many=MANY,
            tiny_rows=TINY_ROWS,
            **self.plan._asdict(),
        )
        home = ours.folder / "spark"
        home.mkdir()
        argv = [sys.executable, "-m", "bench.spark.work", task.to_json()]
        surroundings = {
            **environment(Target.ROQUET),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),  # Spark's workers import the ceilings
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with Child("Spark's session", argv, home / "work.out", surroundings) as child:
            try:
                self._listen(child)
            finally:
                child.kill()

    def _listen(self, child: Child) -> None:
        """Take each number as it comes."""
        for seen in itertools.count():
            has_more = partial(_has_more, child, seen)
            child.wait_until(has_more, "its next number", STEP_TIMEOUT_S)
            told = _told(child.text())[seen]
            name = str(told["bench"])
            if name == "done":
                return
            if "why" in told:
                self.notes[name] = str(told["why"])
                self.say(f"{name}: {told['why']}")
            else:
                self.numbers[name] = float(str(told["value"]))
                self.say(f"{name}: {self.numbers[name]:,.0f}")


def _has_more(child: Child, seen: int) -> bool:
    return len(_told(child.text())) > seen


def _told(text: str) -> list[dict[str, object]]:
    lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in lines if line.startswith('{"bench"')]
