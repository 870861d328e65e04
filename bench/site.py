"""A broker with its name server for those who measure clients, and topics with messages in them.

    open_site ─▶ name server ─▶ broker ─▶ registered     create_topic ─▶ fill ─▶ count

Roquet's own client makes and fills the topics, at whichever broker: `bench.sdk.ours` sends in batches.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import roquet
from bench import probe, servers
from bench.kinds import BODY_BYTES
from bench.rounds import REGISTER_TIMEOUT_S, START_TIMEOUT_S
from bench.sdk.meter import Job, Report, read_report
from bench.servers import Target
from tests.peers.asking import is_registered
from tests.peers.child import Child

BATCH = 256
FILL_TIMEOUT_S = 300.0
GRACE_S = 60.0


class Site(NamedTuple):
    """Where the clients of one broker find it."""

    target: Target
    namesrv: str
    store: Path
    folder: Path
    """For files of the clients; it goes with the site."""


@contextmanager
def open_site(target: Target) -> Iterator[Site]:
    """Start the servers of one broker, and end them and delete their files afterwards."""
    with tempfile.TemporaryDirectory(prefix="roquet-bench-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        store = folder / "store"
        running: list[Child] = []
        try:
            names = servers.start_names(target, folder / "names")
            running.append(names.process)
            began_at = time.monotonic()
            broker = servers.launch_broker(target, folder / "broker", store, names.address)
            running.append(broker.process)
            probe.first_send(broker.process, broker.address, began_at, START_TIMEOUT_S)
            broker.process.wait_until(
                lambda: is_registered(names.address, broker.address), "registered", REGISTER_TIMEOUT_S
            )
            yield Site(target, names.address, store, folder)
        finally:
            for process in reversed(running):
                process.kill()
            shutil.rmtree(folder, ignore_errors=True)


def create_topic(site: Site, topic: str, queues: int) -> None:
    """Create a topic with so many queues."""

    async def create() -> None:
        async with roquet.Admin(site.namesrv) as admin:
            await admin.topics.create(topic, queues=queues)

    asyncio.run(create())


def count(site: Site, topic: str) -> int:
    """Return how many messages were ever stored in a topic."""

    async def add_up() -> int:
        async with roquet.Reader(site.namesrv) as reader:
            return sum([await reader.max_offset(queue) for queue in await reader.queues(topic)])

    return asyncio.run(add_up())


def fill(site: Site, topic: str, messages: int, batch: int = BATCH) -> None:
    """Send messages until the topic has at least so many, in batches that go to one queue after the other."""
    missing = messages - count(site, topic)
    if missing > 0:
        job = Job(
            client="async",
            work="send_batch",
            address=site.namesrv,
            topic=topic,
            group="bench_fill",
            body_bytes=BODY_BYTES,
            senders=1,
            batch=batch,
            warm_up_s=0.0,
            measured_s=FILL_TIMEOUT_S,
            backlog=missing,
        )
        run_client(job, site.folder)


def run_client(
    job: Job, folder: Path, python: str = sys.executable, module: str = "bench.sdk.ours"
) -> Report:
    """Run a Python client in a process of its own and return what it did; raises ChildError."""
    home = folder / f"{job.client}-{job.work}"
    home.mkdir(parents=True, exist_ok=True)
    environment = {**servers.environment(Target.ROQUET), "HOME": str(home)}
    log = home / f"{time.monotonic_ns()}.out"
    with Child(f"{job.client} client", [python, "-m", module, job.to_json()], log, environment) as client:
        limit_s = job.warm_up_s + job.measured_s + GRACE_S
        try:
            client.wait_until(lambda: read_report(client.text()) is not None, "its report", limit_s)
        finally:
            client.kill()
    report = read_report(client.text())
    assert report is not None
    return report
