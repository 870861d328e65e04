"""Scenarios of `compat/java/clients`, run with Apache's Java client of a chosen version.

A `JavaClient` is one JVM that runs many scenarios against any name server. Flags that a JVM reads only at
its start (header encoding, VIP channel) need a JVM of their own. A scenario checks what it sees by itself;
`run` raises `ScenarioFailed` with its sentence, or returns the numbers that it reports.
"""

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.peers import jars
from tests.peers.lines import LineServer

HEAP_MIB = 256
SCENARIO_TIMEOUT_S = 240.0

BINARY_HEADERS = "-Drocketmq.serialize.type=ROCKETMQ"
VIP_CHANNEL = "-Dcom.rocketmq.sendMessageWithVIPChannel=true"

_numbers = itertools.count()


class ScenarioFailed(AssertionError):
    """A Java scenario saw something that it did not expect."""


class JavaClient:
    """One JVM with rocketmq-client of this version; use as a context manager, or call `close`."""

    def __init__(self, version: str, home: Path, flags: Sequence[str] = ()) -> None:
        self.version = version
        home.mkdir(parents=True, exist_ok=True)
        argv = [jars.java(), *small_jvm(home), *flags, "-cp", jars.client_classpath(version)]
        self._lines = LineServer(
            f"Java client {version}", [*argv, "roquet.compat.Driver", "serve"], home / "client.out"
        )

    def run(
        self, scenario: str, namesrv: str, timeout_s: float = SCENARIO_TIMEOUT_S, **arguments: str | int
    ) -> dict[str, Any]:
        """Run one scenario and return its result; topic and group get fresh names unless given."""
        name = fresh_name(f"{scenario}-{self.version}")
        named = {"namesrv": namesrv, "topic": f"T-{name}", "group": f"G-{name}", **arguments}
        words = [scenario, *(f"{key}={value}" for key, value in named.items())]
        answer = self._lines.ask(words, timeout_s)
        if not answer["ok"]:
            raise ScenarioFailed(f"{scenario} on client {self.version}: {answer['error']}")
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    def close(self) -> None:
        self._lines.close()

    def __enter__(self) -> "JavaClient":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def fresh_name(stem: str) -> str:
    """Return a name, legal for topics and groups, that no other test of this run uses."""
    return f"{stem.replace('.', '_')}-{os.getpid()}-{next(_numbers)}"


def small_jvm(home: Path) -> list[str]:
    """Return the flags of a quick and small JVM that keeps its files below `home`."""
    return [
        f"-Xmx{HEAP_MIB}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-Dfile.encoding=UTF-8",
        "-Djava.net.preferIPv4Stack=true",
        f"-Duser.home={home}",
        f"-Drocketmq.client.logRoot={home}",
        f"-Drocketmq.client.localOffsetStoreDir={home / 'offsets'}",
        # Client 5 waits at least so long between two rebalances, also before its first: a second by default.
        "-Drocketmq.client.rebalance.minInterval=50",
        # Without news it looks every 20 s whether its share of the queues or their locks have changed.
        "-Drocketmq.client.rebalance.waitInterval=1000",
        "-Drocketmq.client.rebalance.lockInterval=1000",
        f"-Drmq.logback.configurationFile={jars.LOGBACK}",
        *jars.OPENS,
    ]
