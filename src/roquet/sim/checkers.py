"""What must hold for the whole: after a start, after the faults are over, and against a rebuild.

    audit        every queue, read from the store itself, holds what was promised, dense and in log order
    heals        once nothing is broken any more, every name server knows every broker, and sends succeed
    same_as_log  queues and index equal those of a fresh store that has only the log's files

They read the programs' own objects where that is all that can be asked; they change nothing.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial

from roquet.model.message import Host
from roquet.sim.attempts import Fate, Seen, Wrong
from roquet.sim.clock import SimClock
from roquet.sim.cluster import PASSING_TOPICS, STEADY_TOPICS, BrokerNode, Cluster, Node
from roquet.sim.disk import SimDisk
from roquet.sim.workload import Client, decode_messages
from roquet.store.store import Store
from roquet.wire.bodies import route as route_body
from roquet.wire.codes import Code
from roquet.wire.requests.names import GetRoute
from roquet.wire.requests.send import SendV2

HEAL_S_MAX = 150.0
FOREVER_MS = 1 << 52


async def audit(cluster: Cluster, node: BrokerNode, before: float) -> None:
    """Read every queue of a broker that has just started and compare it with what the oracle was promised
    `before`: what came since may be answered already and not yet be visible."""
    model, store = node.model, node.broker.store
    flushed_offset = store.flushed_offset
    for key in sorted(
        {*model.queues, *((topic, q) for topic in store.topics() for q in store.queues_of(topic))}
    ):
        model.expires(store.log_min_offset)
        promised = {at: it for at, it in model.promised(key).items() if it.stored_at < before}
        found = await read_queue(store, *key)
        model.expires(store.log_min_offset)
        check_order(key, found, is_passing=key[0] in PASSING_TOPICS)
        model.audit(key, promised, found, flushed_offset, cluster.now())
        if model.promised(key) and node.broker.topics.get(key[0]) is None:
            raise Wrong(f"{node.name} has {len(promised)} messages of {key[0]}, but has forgotten the topic")
    cluster.note("audited", node.host, store.log_min_offset, store.log_max_offset)


async def read_queue(store: Store, topic: str, queue_id: int) -> list[Seen]:
    """Return all messages of a queue."""
    found: list[Seen] = []
    at = store.min_offset(topic, queue_id)
    while at < store.max_offset(topic, queue_id):
        got = await store.read(topic, queue_id, at, 32, 1 << 20)
        for data in got.records:
            found += decode_messages(bytes(data))
        if got.next_offset <= at:
            raise Wrong(f"{topic}/{queue_id}: a read at {at} leads to {got.next_offset} ({got.status})")
        if not got.records and store.min_offset(topic, queue_id) <= at:
            entry = await store.queue_entries(topic, queue_id, at, 1)
            if entry and entry[0].log_offset >= store.log_min_offset:
                raise Wrong(f"{topic}/{queue_id}: nothing at {at}, where {entry} is: {got.status}")
        at = got.next_offset
    return found


def check_order(key: tuple[str, int], found: list[Seen], *, is_passing: bool) -> None:
    """Queue offsets are dense; places in the log and store times go up with them."""
    for one, other in zip(found, found[1:], strict=False):
        if other.queue_offset != one.queue_offset + 1:
            raise Wrong(f"{key}: {other.queue_offset} follows {one.queue_offset}")
        if not is_passing and (other.log_offset <= one.log_offset or other.store_ms < one.store_ms):
            raise Wrong(f"{key}: {other} follows {one}")


async def heals(cluster: Cluster, client: Client) -> None:
    """Wait until all is well; it must be before long."""
    until = cluster.now() + HEAL_S_MAX
    for names in cluster.names:
        for broker in cluster.brokers:
            check = partial(_has_route, client, names, broker)
            await _until(cluster, until, f"route to {broker.name}", check)
    for broker in cluster.brokers:
        for topic in STEADY_TOPICS:
            check = partial(_can_send, client, broker, topic)
            await _until(cluster, until, f"send to {broker.name}", check)


async def _until(cluster: Cluster, until: float, what: str, check: Callable[[], Awaitable[str]]) -> None:
    """Ask until `check` has no complaint."""
    problem = "not tried"
    while cluster.now() < until:
        try:
            problem = await check()
        except OSError as error:
            problem = repr(error)
        if not problem:
            return
        await cluster.sleep(1.0)
    raise Wrong(f"all faults are over since {HEAL_S_MAX} s, and still no {what}: {problem}")


async def _has_route(client: Client, names: Node, broker: BrokerNode) -> str:
    for topic in sorted(broker.broker.topics.table):
        if topic not in STEADY_TOPICS and topic != "TBW102":
            continue
        answer = await client.ask(names, GetRoute(topic, True))
        if answer.code != Code.SUCCESS:
            return f"{names.host} knows nobody for {topic}: {answer.remark}"
        route = route_body.decode(answer.body)
        addresses = {data.broker_name: data.broker_addrs.get(0) for data in route.brokers}
        if addresses.get(broker.name) != broker.address:
            return f"{names.host} has {addresses} for {topic}"
    return ""


async def _can_send(client: Client, broker: BrokerNode, topic: str) -> str:
    attempt = client.draft(broker, topic, 0)
    request = SendV2("p", topic, "TBW102", 3, 0, 0, 0, 0, client.properties(attempt))
    await client.deliver(broker, [attempt], request, attempt.body, True, broker.address)
    return "" if attempt.fate is Fate.STORED else f"a send ended {attempt}: {broker.broker.store.refusal}"


async def same_as_log(cluster: Cluster, node: BrokerNode) -> None:
    """Compare a broker's queues and index with those of a store that is given its log alone."""
    old, disk = node.broker.store, SimDisk(random.Random(0), SimClock(cluster.world.loop))
    settings = cluster.plan.store
    source = cluster.world.disk(node.host)
    disk.make_dirs(settings.log_dir)
    for file in source.list_dir(settings.log_dir):
        disk.write_file(
            f"{settings.log_dir}/{file.name}", source.read_file(f"{settings.log_dir}/{file.name}")
        )
    new = Store(
        disk, SimClock(cluster.world.loop), settings, Host(bytes(4), 1), cluster.world.loop.call_soon, 1
    )
    new.open()
    if old.log_max_offset != new.log_max_offset:
        raise Wrong(
            f"{node.name}: the log ends at {old.log_max_offset}, for a rebuild at {new.log_max_offset}"
        )
    for topic in STEADY_TOPICS:
        for queue_id in sorted({*old.queues_of(topic), *new.queues_of(topic)}):
            await _same_queue(old, new, topic, queue_id, node.model.log_min_offset)
    keys = {(attempt.topic, attempt.keys) for attempt in node.model.tries.values() if attempt.keys}
    for topic, key in sorted(keys):
        if topic in STEADY_TOPICS and not cluster.has_index_gap:
            await _same_hits(old, new, topic, key, node.model.log_min_offset)
    await new.close()


async def _same_queue(old: Store, new: Store, topic: str, queue_id: int, log_min_offset: int) -> None:
    entries = []
    for store in (old, new):
        low, high = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        listed = await store.queue_entries(topic, queue_id, low, high - low)
        pairs = zip(range(low, high), listed, strict=True)
        entries.append([pair for pair in pairs if pair[1].log_offset >= log_min_offset])
    if entries[0] != entries[1]:
        raise Wrong(f"{topic}/{queue_id} holds {entries[0]}, rebuilt from the log {entries[1]}")


async def _same_hits(old: Store, new: Store, topic: str, key: str, log_min_offset: int) -> None:
    hits = []
    for store in (old, new):
        found = await store.query(topic, key, 64, 0, FOREVER_MS)
        listed = [seen for data in found.records for seen in decode_messages(data)]
        # Keys are filed by hash: messages with other keys may be among them, and readers leave them out.
        hits.append([it.log_offset for it in listed if it.keys == key and it.log_offset >= log_min_offset])
    if hits[0] != hits[1] and len(hits[1]) < 64:
        raise Wrong(f"{topic}, key {key}: the index leads to {hits[0]}, rebuilt to {hits[1]}")
