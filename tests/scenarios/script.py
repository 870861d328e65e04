"""Scenarios as text: a command, a line of dashes, what it prints; blocks are separated by blank lines.

    send t 0 hello tag=A size=99   read t 0        poll t 0 AT SECONDS     query t KEY
    commit g t 0 5                 offset g t 0    lock CLIENT t 0         delete-topic t
    kill · power-cut · stop · start                wait SECONDS            clock SECONDS
    disk fail KIND PATH TIMES · disk full · disk well                      route t

The first block may be `broker` with settings (`flush=SYNC`). Everything runs in the simulation, on the
stage of the broker's own tests, once for each of several seeds: what a power cut takes differs, what is
printed must not. `ROQUET_REWRITE=1` writes what was printed into the files.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from roquet.client import Answered, Plain
from roquet.sim.workload import decode_messages
from roquet.store.settings import FlushMode
from roquet.wire.codes import Code
from roquet.wire.requests.offsets import OffsetFound, QueryOffset, UpdateOffset
from roquet.wire.requests.order import LockQueues
from roquet.wire.requests.query import QueryMessage
from roquet.wire.requests.topics import DeleteTopic
from tests.broker.stage import BROKER, BROKER_HOST, Stage

DASHES = "----"
TRIES = 5
FOREVER_MS = 1 << 52


class Block(NamedTuple):
    """One command with what it should print, and the comment lines above it."""

    comment: str
    command: str
    expected: str


def parse(text: str) -> list[Block]:
    """Return the blocks of a scenario file."""
    blocks = []
    for part in text.strip().split("\n\n"):
        lines = part.splitlines()
        comment = "".join(f"{line}\n" for line in lines if line.startswith("#"))
        body = [line for line in lines if not line.startswith("#")]
        assert len(body) >= 2 and body[1] == DASHES, f"no {DASHES} under {body[:1]}"
        blocks.append(Block(comment, body[0], "\n".join(body[2:])))
    return blocks


def format_blocks(blocks: list[Block]) -> str:
    """Return the text of a scenario file."""
    return (
        "\n\n".join(
            f"{block.comment}{block.command}\n{DASHES}\n{block.expected}".rstrip() for block in blocks
        )
        + "\n"
    )


def play(path: Path, seed: int) -> list[Block]:
    """Run a scenario and return its blocks with what was really printed."""
    blocks = parse(path.read_text())
    settings = dict(word.split("=") for word in blocks[0].command.split()[1:])
    stage = Stage(seed, {"flush_mode": FlushMode[settings.get("flush", "ASYNC")]})
    printed = [blocks[0]]

    async def scenario(stage: Stage, client: Plain) -> None:
        actor = Actor(stage, client)
        for block in blocks[1:]:
            printed.append(block._replace(expected=await actor.do(block.command)))

    stage.play(scenario)
    return printed


class Actor:
    """Carries commands out; each returns what it prints."""

    def __init__(self, stage: Stage, client: Plain) -> None:
        self._stage = stage
        self._client = client

    async def do(self, command: str) -> str:
        words = [word for word in command.split() if "=" not in word]
        options = dict(word.split("=", 1) for word in command.split() if "=" in word)
        name = words[0].replace("-", "_")
        for _ in range(TRIES):  # the first request over a link that a crash left half open fails
            try:
                result: str = await getattr(self, f"do_{name}")(*words[1:], **options)
                return result
            except Answered as refused:
                return f"refused: {Code(refused.code).name}"
            except OSError:
                await self._stage.pass_time(1)
        return "unreachable"

    async def do_send(
        self, topic: str, queue_id: str, body: str, tag: str = "", key: str = "", size: str = "0"
    ) -> str:
        data = body.encode().ljust(int(size))
        sent = await self._client.send(topic, data, tag=tag, keys=key, queue_id=int(queue_id))
        return f"{sent.queue_id} at {sent.queue_offset}"

    async def do_read(self, topic: str, queue_id: str, tags: str = "*") -> str:
        messages = await self._client.read(topic, int(queue_id), 0, tags=tags)
        lines = (f"{it.queue_offset} {it.body.decode().rstrip()} {it.tag}".rstrip() for it in messages)
        return "\n".join(lines) or "nothing"

    async def do_poll(self, topic: str, queue_id: str, at: str, seconds: str) -> str:
        clock = self._stage.world.clock(BROKER_HOST)
        began = clock.monotonic()
        messages = await self._client.read(topic, int(queue_id), int(at), wait_ms=int(seconds) * 1000)
        bodies = " ".join(message.body.decode() for message in messages) or "nothing"
        return f"{bodies} after {clock.monotonic() - began:.0f} s"

    async def do_query(self, topic: str, key: str) -> str:
        answer = await self._client.ask(BROKER, QueryMessage(topic, key, 32, 0, FOREVER_MS))
        return "\n".join(seen.body.decode() for seen in decode_messages(answer.body))

    async def do_commit(self, group: str, topic: str, queue_id: str, at: str) -> str:
        await self._client.ask(BROKER, UpdateOffset(group, topic, int(queue_id), int(at)))
        return "ok"

    async def do_offset(self, group: str, topic: str, queue_id: str) -> str:
        answer = await self._client.ask(BROKER, QueryOffset(group, topic, int(queue_id), False))
        return str(OffsetFound.decode(answer.ext).offset)

    async def do_lock(self, client: str, topic: str, queue_id: str) -> str:
        queue = {"brokerName": "broker-a", "queueId": int(queue_id), "topic": topic}
        body = {"clientId": client, "consumerGroup": "g", "mqSet": [queue]}
        answer = await self._client.ask(BROKER, LockQueues(), msgspec.json.encode(body))
        return "locked" if msgspec.json.decode(answer.body)["lockOKMQSet"] else "held by another"

    async def do_delete_topic(self, topic: str) -> str:
        await self._client.ask(BROKER, DeleteTopic(topic))
        return "ok"

    async def do_route(self, topic: str) -> str:
        route = await self._client.route(topic)
        return " ".join(f"{queue.broker_name}:{queue.write_queue_nums}" for queue in route.queues)

    async def do_kill(self) -> str:
        return self._at_once(lambda: self._stage.world.kill(BROKER_HOST))

    async def do_power_cut(self) -> str:
        return self._at_once(lambda: self._stage.world.power_cut(BROKER_HOST))

    async def do_start(self) -> str:
        self._stage.world.power_on(BROKER_HOST)
        await self._stage.start_broker()
        return "ok"

    async def do_stop(self) -> str:
        assert self._stage.broker is not None
        await self._stage.broker.close()
        return await self.do_kill()

    async def do_wait(self, seconds: str) -> str:
        await self._stage.pass_time(float(seconds))
        return "ok"

    async def do_clock(self, seconds: str) -> str:
        return self._at_once(lambda: self._stage.world.clock(BROKER_HOST).jump_ms(int(seconds) * 1000))

    async def do_disk(self, what: str, kind: str = "", where: str = "", times: str = "1") -> str:
        disk = self._stage.world.disk(BROKER_HOST)
        if what == "fail":
            disk.fail(kind, where, errno.EIO if kind == "sync" else errno.ENOSPC, int(times))
        elif what == "full":
            disk.other_used_bytes = disk.capacity_bytes - disk.usage("/").used_bytes
        else:
            disk.heal()
            disk.other_used_bytes = 0
        return "ok"

    def _at_once(self, act: Callable[[], None]) -> str:
        act()
        return "ok"
