"""What else clients do beside sending and reading: offsets, groups, locks, topics, queries.

Each function is one visit to a broker that ends with a check. `VISITS` gives them their weights; a seed
leaves some kinds out altogether, so that the others get further.
"""

from __future__ import annotations

import random

import msgspec

from roquet.sim.attempts import Wrong
from roquet.sim.cluster import PASSING_TOPICS, QUEUES, STEADY_TOPICS
from roquet.sim.model_broker import PositionKey
from roquet.sim.workload import Client, Visit, decode_messages
from roquet.wire.codes import Code
from roquet.wire.requests.client import GetConsumerList, Heartbeat, UnregisterClient
from roquet.wire.requests.names import GetRoute
from roquet.wire.requests.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetFound,
    QueryOffset,
    ResetOffset,
    SearchOffset,
    UpdateOffset,
)
from roquet.wire.requests.order import LockQueues, UnlockQueues
from roquet.wire.requests.query import QueryMessage, ViewMessage
from roquet.wire.requests.topics import DeleteTopic, UpdateTopic

FOREVER_MS = 1 << 52
INDEX_SETTLES_S = 10.0
HITS_SURE = 30  # an answer holds 64 messages at most


async def commit(client: Client) -> None:
    """Commit an offset, alone or with a pull."""
    node, topic, queue_id = client.pick(STEADY_TOPICS)
    key: PositionKey = (client.group, topic, queue_id)
    at, life = client.any_offset(node, topic, queue_id), node.life
    node.model.committing(key, at, client.cluster.now())
    if client.rng.random() < 0.3:
        got = await client.read(node, topic, queue_id, at, commit=at)
        is_done = got.code in (Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_OFFSET_MOVED)
    else:
        is_done = (await client.ask(node, UpdateOffset(*key, at))).code == Code.SUCCESS
    if is_done and node.life == life:
        node.model.committed(key, at, client.cluster.now())


async def query_offset(client: Client) -> None:
    """Ask for the committed offset: it must be what was committed last."""
    node, topic, queue_id = client.pick(STEADY_TOPICS)
    key: PositionKey = (client.group, topic, queue_id)
    life = node.life
    answer = await client.ask(node, QueryOffset(*key, False))
    if node.life == life and answer.code in (Code.SUCCESS, Code.QUERY_NOT_FOUND):
        found = OffsetFound.decode(answer.ext).offset if answer.code == Code.SUCCESS else None
        node.model.committed(key, found, client.cluster.now())


async def reset(client: Client) -> None:
    """Move the group by order; commits are ignored until the next pull has been told."""
    node, topic, queue_id = client.pick(STEADY_TOPICS)
    key: PositionKey = (client.group, topic, queue_id)
    life = node.life
    end = OffsetFound.decode((await client.ask(node, GetMaxOffset(topic, queue_id))).ext).offset
    start = OffsetFound.decode((await client.ask(node, GetMinOffset(topic, queue_id))).ext).offset
    at = start + client.rng.randrange(end - start + 1) if end > start else end
    node.model.committing(key, at, client.cluster.now())
    answer = await client.ask(node, ResetOffset(topic, client.group, 0, True, queue_id, at))
    if answer.code != Code.SUCCESS or node.life != life:
        return
    node.model.committed(key, at, client.cluster.now())
    got = await client.read(node, topic, queue_id, client.any_offset(node, topic, queue_id))
    moved = (Code.PULL_OFFSET_MOVED, at)
    if node.life == life and (got.code, got.next_offset) != moved:
        raise Wrong(f"after a reset of {key} to {at} a pull was answered {got}")


async def heartbeat(client: Client) -> None:
    """Join a group, be listed, and perhaps leave it."""
    node, topic, _ = client.pick()
    life, began = node.life, client.cluster.now()
    consumer = {
        "groupName": "shared", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
        "subscriptionDataSet": [{"topic": topic, "subString": "*", "subVersion": 1}],
    }  # fmt: skip
    body = {"clientID": client.client_id, "consumerDataSet": [consumer], "producerDataSet": []}
    if (await client.ask(node, Heartbeat(), msgspec.json.encode(body))).code != Code.SUCCESS:
        return
    leaves = client.rng.random() < 0.5
    if leaves:
        await client.ask(node, UnregisterClient(client.client_id, "", "shared"))
    answer = await client.ask(node, GetConsumerList("shared"))
    members = msgspec.json.decode(answer.body)["consumerIdList"] if answer.code == Code.SUCCESS else []
    if client.cluster.was_disturbed(node, began) or node.life != life:
        return
    if (client.client_id in members) == leaves:
        raise Wrong(f"{client.client_id} is {'still' if leaves else 'not'} listed: {members}")


async def lock(client: Client) -> None:
    """Lock a queue of the shared group, and perhaps give it back."""
    node, topic, queue_id = client.pick()
    key: PositionKey = ("shared", topic, queue_id)
    queue = {"brokerName": node.name, "queueId": queue_id, "topic": topic}
    body = {"clientId": client.client_id, "consumerGroup": "shared", "mqSet": [queue]}
    asked_at, life = client.cluster.now(), node.life
    answer = await client.ask(node, LockQueues(), msgspec.json.encode(body))
    if (
        answer.code != Code.SUCCESS
        or node.life != life
        or not msgspec.json.decode(answer.body)["lockOKMQSet"]
    ):
        return
    live_s = client.cluster.plan.lock_live_ms / 1000
    node.model.locked(key, client.client_id, asked_at, live_s, client.cluster.now())
    if client.rng.random() < 0.5:
        node.model.unlocked(key, client.client_id)
        await client.ask(node, UnlockQueues(), msgspec.json.encode(body))


async def make_topic(client: Client) -> None:
    """Create a topic, or set it to what it is."""
    node, topic, _ = client.pick()
    await client.ask(node, UpdateTopic(topic, QUEUES, QUEUES, 6))


async def delete_topic(client: Client) -> None:
    """Delete one of the topics that come and go."""
    node, topic = client.rng.choice(client.cluster.brokers), client.rng.choice(PASSING_TOPICS)
    model = node.model
    model.deletes(topic)
    model.deleting.append(topic)
    try:
        await client.ask(node, DeleteTopic(topic))
    except OSError:
        model.unanswered.append(topic)
        raise
    finally:
        model.deletes(topic)  # what was tried meanwhile may have gone too
        model.deleting.remove(topic)


async def query_key(client: Client) -> None:
    """Ask for a key: every message that has it must be among the answers."""
    node, topic, _ = client.pick(STEADY_TOPICS)
    key, life = f"k{client.rng.randrange(150)}", node.life
    due = [
        attempt
        for attempt in node.model.tries.values()
        if attempt.topic == topic and attempt.keys == key and node.model.is_visible(attempt)
    ]
    answer = await client.ask(node, QueryMessage(topic, key, 64, 0, FOREVER_MS))
    found = {seen.body for seen in decode_messages(answer.body)} if answer.code == Code.SUCCESS else set()
    now = client.cluster.now()
    if (
        client.cluster.has_index_gap
        or node.life != life
        or node.disk_troubles
        or now - node.disk_trouble_at < INDEX_SETTLES_S
    ):
        return
    node.model.expires(node.broker.store.log_min_offset)
    for attempt in due if len(due) < HITS_SURE else ():
        if node.model.is_visible(attempt) and attempt.body not in found:
            raise Wrong(f"{attempt} is not found by its key {key}")


async def view(client: Client) -> None:
    """Ask for a message by its place in the log."""
    node, _, _ = client.pick()
    stored = [
        attempt
        for attempt in node.model.tries.values()
        if node.model.is_visible(attempt) and attempt.topic not in PASSING_TOPICS
    ]
    if not stored:
        return
    attempt, life = client.rng.choice(stored), node.life
    answer = await client.ask(node, ViewMessage(attempt.log_offset))
    node.model.expires(node.broker.store.log_min_offset)
    if node.life == life and node.model.is_visible(attempt) and attempt.body not in answer.body:
        raise Wrong(f"at {attempt.log_offset} lies {answer.remark or answer.body!r} instead of {attempt}")


async def search(client: Client) -> None:
    """Ask which offset a time stands for: all before it must be older, all behind it not."""
    node, topic, queue_id = client.pick(STEADY_TOPICS)
    known = [at for at in node.model.promised((topic, queue_id)).values() if at.store_ms > 0]
    if not known:
        return
    store_ms, life = client.rng.choice(known).store_ms + client.rng.choice((-1, 0, 1)), node.life
    answer = await client.ask(node, SearchOffset(topic, queue_id, store_ms))
    if node.life != life or answer.code != Code.SUCCESS:
        return
    found = OffsetFound.decode(answer.ext).offset
    node.model.expires(node.broker.store.log_min_offset)
    for attempt in filter(node.model.is_visible, known):
        if (attempt.queue_offset >= found) != (attempt.store_ms >= store_ms):
            raise Wrong(f"{store_ms} ms is offset {found}, but {attempt} was stored at {attempt.store_ms}")


async def route(client: Client) -> None:
    """Ask a name server; whatever it says, it must say it in time."""
    await client.ask(
        client.rng.choice(client.cluster.names), GetRoute(client.rng.choice(STEADY_TOPICS), True)
    )


VISITS: dict[Visit, int] = {
    Client.send: 30, Client.send_batch: 6, Client.send_too_much: 1, Client.read_tags: 12, Client.poll: 6,
    commit: 8, query_offset: 8, reset: 2, heartbeat: 3, lock: 6, make_topic: 2, delete_topic: 2,
    query_key: 6, view: 4, search: 4, route: 2,
}  # fmt: skip


async def drive(client: Client, until: float) -> None:
    """Visit the cluster until it is time; what a fault costs is the price of it."""
    rng = client.rng
    swarm = random.Random(f"{client.cluster.seed}/visits")
    kinds = [kind for kind in VISITS if kind is Client.send or swarm.random() < 0.8]
    weights = [VISITS[kind] for kind in kinds]
    while client.cluster.now() < until:
        visit = rng.choices(kinds, weights)[0]
        try:
            await visit(client)
        except OSError as error:
            client.cluster.note(client.client_id, "failed", visit.__name__, type(error).__name__)
        await client.cluster.sleep(rng.random() * rng.choice((0.0, 0.02, 0.3)))
