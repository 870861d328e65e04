"""What consumer tests share: a ground with a topic, a persistent sender, handlers that take notes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from roquet.client import Answered, Plain, connect
from roquet.client.consumer.consumer import Consumer
from roquet.client.message import Message
from roquet.sim.loop import SimLoop
from roquet.wire.requests.topics import UpdateTopic
from tests.client.ground import BROKER, CLIENT, NAMES, Ground

TOPIC = "orders"
LISTENERS = ("127.0.0.5", "127.0.0.6", "127.0.0.7", "127.0.0.8")


class Hall(Ground):
    """A ground on which consumers listen; each listener has a host of its own."""

    def __init__(self, seed: int = 1, **broker: Any) -> None:
        super().__init__(seed, **broker)
        for host in LISTENERS:
            self.world.ports(host)
        self.sender: Plain | None = None

    def play(
        self, scenario: Callable[[Hall], Coroutine[Any, Any, None]], limit_s: float = 3_600, brokers: int = 1
    ) -> None:
        """Start everything, run the scenario, and see that no task of a client is left behind."""

        async def main() -> None:
            await self.start(names=1, brokers=brokers)
            async with connect(f"{NAMES[0]}:9876", self.world.ports(CLIENT)) as self.sender:
                for host in sorted(self.brokers):
                    await self.sender.ask(f"{host}:10911", UpdateTopic(TOPIC, 4, 4, 6))
                await self.pass_time(1)
                await scenario(self)
            await self.pass_time(0)
            left = leftovers(self.world.loop)
            assert not left, f"tasks left behind: {left}"

        with self.world as world:
            world.run(main(), limit_s)

    def consumer(self, host: str = LISTENERS[0], **options: Any) -> Consumer:
        options = {"group": "billing", "subscribe": TOPIC, "start": "earliest"} | options
        return Consumer(f"{NAMES[0]}:9876", ports=self.world.ports(host), **options)

    async def send(self, body: bytes | str, queue_id: int = 0, topic: str = TOPIC, **options: Any) -> None:
        """Send until a broker has stored it."""
        assert self.sender is not None
        data = body if isinstance(body, bytes) else body.encode()
        while True:
            try:
                await self.sender.send(topic, data, queue_id=queue_id, **options)
                return
            except (OSError, Answered):
                await self.pass_time(0.5)

    async def until(self, condition: Callable[[], bool], limit_s: float = 300) -> None:
        """Let time pass until the condition holds."""
        deadline = self.clock.monotonic() + limit_s
        while not condition():
            assert self.clock.monotonic() < deadline, "it does not come about"
            await self.pass_time(0.05)

    async def committed(self, group: str = "billing", topic: str = TOPIC, queue_id: int = 0) -> int:
        """Return what the broker has stored as the group's position."""
        from roquet.wire.requests.offsets import OffsetFound, QueryOffset

        assert self.sender is not None
        answer = await self.sender.ask(BROKER, QueryOffset(group, topic, queue_id))
        return OffsetFound.decode(answer.ext).offset


class Notes:
    """A handler that writes down what it gets; `then` may do more with each message."""

    def __init__(self, then: Callable[[Message], Awaitable[None] | None] | None = None) -> None:
        self.messages: list[Message] = []
        self._then = then

    async def __call__(self, message: Message) -> None:
        self.messages.append(message)
        if self._then is not None:
            result = self._then(message)
            if result is not None:
                await result

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def __len__(self) -> int:
        return len(self.messages)


def leftovers(loop: SimLoop) -> list[str]:
    """Return the tasks of clients that are still alive."""
    own = asyncio.current_task()
    return [task.get_name() for task in loop.tasks() if task.program.name == "test" and task is not own]
