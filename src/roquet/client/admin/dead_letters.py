"""Dead letters: what groups gave up, a look at it, and sending it again to where it first came from.

    %DLQ%<group>, every queue ─▶ from the position of ROQUET_DLQ_REPLAY on ─▶ first topic, history kept
                                 which is committed behind each page: what was replayed is not sent again

A replay that is cut short sends at most one page twice. Dead letters themselves stay where they are until
they expire like all messages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from roquet.client.admin.groups import Groups
from roquet.client.admin.messages import Messages
from roquet.client.admin.offsets import Offsets
from roquet.client.admin.reading import PAGE_MAX, Queues
from roquet.client.admin.revival import first_topic
from roquet.client.admin.topics import Topics
from roquet.client.errors import Misuse, NoRoute, NotAllowed, NotFound
from roquet.client.message import Message, Receipt
from roquet.model.names import DLQ_PREFIX, is_dead_letter
from roquet.model.route import QueueName
from roquet.wire.codes import Code

REPLAY_GROUP: Final = "ROQUET_DLQ_REPLAY"
"""Keeps how far each group's dead letters are replayed, as offsets like any others."""


class DeadGroup(NamedTuple):
    """A group with dead letters: how many are stored, and how many of them were never replayed."""

    group: str
    letters: int
    waiting: int


class Replayed(NamedTuple):
    """One dead letter that was sent again."""

    letter: Message
    receipt: Receipt


class DeadLetters:
    """Looks after what groups gave up."""

    def __init__(
        self, topics: Topics, groups: Groups, offsets: Offsets, messages: Messages, queues: Queues
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._messages = messages
        self._queues = queues

    async def groups(self) -> list[DeadGroup]:
        """Return the groups that have dead letters."""
        found = []
        for topic in await self._topics.list():
            if is_dead_letter(topic):
                counted = await self.count(topic.removeprefix(DLQ_PREFIX))
                if counted.letters:
                    found.append(counted)
        return found

    async def count(self, group: str) -> DeadGroup:
        """Return how many dead letters a group has; none when it never gave up anything."""
        letters = waiting = 0
        for queue, address in (await self._letter_queues(group)).items():
            low, high = await self._queues.bounds(address, queue)
            letters += high - low
            waiting += high - max(low, await self._replayed_to(queue))
        return DeadGroup(group, letters, waiting)

    async def peek(self, group: str, *, max: int = PAGE_MAX, newest: bool = True) -> list[Message]:
        """Return dead letters of a group, the newest or the oldest ones, in the order they were stored.

        Raises NotAllowed when the topic cannot be read: brokers before 5.0 make it for writing only.
        """
        found: list[Message] = []
        for queue, address in (await self._letter_queues(group)).items():
            _, high = await self._queues.bounds(address, queue)
            first = high - max if newest else 0
            taken = 0
            async for message in self._letters(address, queue, first if first > 0 else 0):
                if taken == max:
                    break
                found.append(message)
                taken += 1
        found.sort(key=lambda each: (each.record.store_ms, each.log_offset))
        return found[-max:] if newest else found[:max]

    async def replay(
        self, group: str, *, topic: str = "", again: bool = False, max: int | None = None
    ) -> AsyncIterator[Replayed]:
        """Send dead letters of a group to the topic they first came from, or to another; yields each.

        What was replayed before is left out, unless it shall go `again`. Stop iterating to stop.
        """
        if max is not None and max <= 0:
            raise Misuse(
                f"{max} dead letters cannot be replayed", hint="give a number above 0, or none for all"
            )
        sent = 0
        for queue, address in (await self._letter_queues(group)).items():
            done = first = 0 if again else await self._replayed_to(queue)
            try:
                async for letter in self._letters(address, queue, first):
                    if sent == max:
                        return
                    receipt = await self._messages.resend(letter, topic or first_topic(letter))
                    sent, done = sent + 1, letter.queue_offset + 1
                    yield Replayed(letter, receipt)
                    if done % PAGE_MAX == 0:
                        await self._note(queue, done)
            finally:
                if done > first:
                    await self._note(queue, done)

    async def _letters(self, address: str, queue: QueueName, first: int) -> AsyncIterator[Message]:
        try:
            async for message in self._queues.messages(address, queue, first):
                yield message
        except NotAllowed as error:
            hint = f"let it be read: roquet topic update {queue.topic} --access rw"
            raise NotAllowed(error.what, hint=hint, code=error.code) from None

    async def _letter_queues(self, group: str) -> dict[QueueName, str]:
        try:
            return await self._queues.of(f"{DLQ_PREFIX}{group}")
        except NoRoute:
            return {}

    async def _replayed_to(self, queue: QueueName) -> int:
        try:
            return await self._offsets.position(REPLAY_GROUP, queue)
        except NotFound:
            return 0

    async def _note(self, queue: QueueName, offset: int) -> None:
        try:
            await self._offsets.commit(REPLAY_GROUP, queue, offset)
        except NotFound as error:
            if error.code != Code.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            await self._groups.create(REPLAY_GROUP, broker=queue.broker_name)
            await self._offsets.commit(REPLAY_GROUP, queue, offset)
