"""One round of the clients: a broker, a topic of eight queues, and one client after the other.

    Apache's broker and proxy, then Roquet's broker; at each
        send ─▶ send_batch, by every client ─▶ fill up the backlog ─▶ receive ─▶ receive_batch

Every client has a process of its own, which ends when it has told its numbers; nothing else of the benchmark
but the servers runs meanwhile. A client that cannot be run is noted, with the reason, and the others go on.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import roquet
from bench import clients
from bench.kinds import BODY_BYTES, SENDER_THREADS
from bench.rounds import BACKLOG_SHARE_MAX
from bench.sdk import proxy
from bench.sdk.meter import Job, Report
from bench.servers import Target
from bench.site import BATCH, Site, count, create_topic, fill, open_site, run_client
from tests.peers.child import ChildError

CLIENTS = ("async", "sync", "java", "pypi")
WORKS = ("send", "send_batch", "receive", "receive_batch")
BROKERS = (Target.APACHE, Target.ROQUET)
CAN_DO = {"java": WORKS[:3], "pypi": ("send", "receive")}
"""What a client has no function for is left out; Java's consumer always pulls lists."""
TOPIC = "SdkBench"
QUEUES = 8
BATCH_SENDERS = 8
UNENDING = 1 << 60

Say = Callable[[str], None]


class Plan(NamedTuple):
    """How long each client works, and on how many messages."""

    warm_up_s: float
    measured_s: float
    backlog: int


FULL = Plan(5.0, 10.0, 3_000_000)
QUICK = Plan(2.0, 4.0, 3_000_000)


class Round:
    """Numbers of one round, and what there is to say about those that are missing."""

    def __init__(self, plan: Plan, say: Say) -> None:
        self.plan = plan
        self.say = say
        self._backlog = 0
        self.numbers: dict[str, float] = {"failures": 0.0}
        self.notes: dict[str, str] = {}

    def measure(self, is_reversed: bool) -> None:
        """Measure all clients at both brokers; raises ChildError when a server, or our client, gives up."""
        for target in reversed(BROKERS) if is_reversed else BROKERS:
            with open_site(target) as site, _proxied(site, self) as address:
                create_topic(site, TOPIC, QUEUES)
                for work in WORKS:
                    if work == "receive":
                        fill(site, TOPIC, self.plan.backlog)
                        self._backlog = count(site, TOPIC)
                    for client in CLIENTS[::-1] if is_reversed else CLIENTS:
                        if work in CAN_DO.get(client, WORKS):
                            self._client(site, address, client, work)

    def _client(self, site: Site, proxy_address: str, client: str, work: str) -> None:
        if client == "pypi" and not proxy_address:
            return  # noted already, or the broker is not one that Apache's proxy serves
        address = proxy_address if client == "pypi" else site.namesrv
        job = _job(address, client, work, self.plan)
        if work.startswith("receive"):
            job = job._replace(backlog=self._backlog)
            asyncio.run(_rewind(site.namesrv, job.group))
        try:
            report = _java(job, site) if client == "java" else _python(job, site)
        except ChildError as error:
            if client != "pypi":
                raise
            self.notes[f"{client} {work}"] = " ".join(str(error).split())[: proxy.REASON_CHARS_MAX]
            return
        name = f"{site.target.value}.{client}.{work}"
        if client != "pypi":
            self.numbers["failures"] += report.failures
        if report.failures or not report.messages:
            nothing = "no message came, or the backlog did not last"
            what = f"{report.failures} requests failed" if report.failures else nothing
            self.notes[f"{client} {work}, {site.target.value}"] = what
            self.say(f"{name}: {what}")
            return
        self.numbers[f"{name}.per_s"] = report.per_s
        self.numbers[f"{name}.cpu"] = report.cpu_s_per_million
        self.say(f"{name}: {report.per_s:,.0f} messages/s, {report.cpu_s_per_million:.1f} s per million")


def _job(address: str, client: str, work: str, plan: Plan) -> Job:
    is_batch = work == "send_batch"
    return Job(
        client=client,
        work=work,
        address=address,
        topic=TOPIC,
        group=f"bench_{client}_{work}",
        body_bytes=BODY_BYTES,
        senders=1 if work.startswith("receive") else BATCH_SENDERS if is_batch else SENDER_THREADS,
        batch=BATCH,
        warm_up_s=plan.warm_up_s,
        measured_s=plan.measured_s,
        backlog=UNENDING,
    )


def _python(job: Job, site: Site) -> Report:
    """Run a Python client; raises ChildError."""
    if job.client == "pypi":
        return run_client(job, site.folder, str(proxy.client_python()), "bench.sdk.pypi")
    return run_client(job, site.folder)


def _java(job: Job, site: Site) -> Report:
    """Run one of Apache's benchmark programs, which measure nine seconds."""
    home = site.folder / f"java-{job.work}"
    if job.work == "send":
        load = clients.own_send(job.address, job.topic, home)
    elif job.work == "send_batch":
        load = clients.own_send_batch(job.address, job.topic, home, job.senders, job.batch)
    else:
        load = clients.own_consume(job.address, job.topic, job.group, home)
        if load.moved_max > job.backlog * BACKLOG_SHARE_MAX:
            return Report(0, load.report.failures, 1.0, 0.0)
    messages = load.report.messages_per_s
    return Report(round(messages), load.report.failures, 1.0, load.cpu_s_per_million * messages / 1_000_000)


@contextmanager
def _proxied(site: Site, found: Round) -> Iterator[str]:
    """Give the address of a proxy beside Apache's broker, or nothing: then a note says why."""
    if site.target is not Target.APACHE:
        yield ""
        return
    try:
        proxy.client_python()
        started = proxy.start(site.namesrv, site.folder / "proxy")
    except proxy.Missing as error:
        found.notes["pypi"] = str(error)
        found.say(f"pypi: {error}")
        yield ""
        return
    try:
        yield started.address
    finally:
        started.process.kill()


async def _rewind(namesrv: str, group: str) -> None:
    """Let a group begin with the oldest message: without a position every broker has its own idea."""
    async with roquet.Admin(namesrv) as admin, roquet.Reader(namesrv) as reader:
        await admin.groups.create(group)
        for queue in await reader.queues(TOPIC):
            await admin.offsets.commit(group, queue, 0)
