"""Transactions whose producers never said how they ended: a broker gives them up after many questions.

They lie in TRANS_CHECK_MAX_TIME_TOPIC; `resume` has the broker ask again. Code 323.
"""

from __future__ import annotations

from roquet.client.admin.reach import Reach
from roquet.client.admin.reading import PAGE_MAX, Queues
from roquet.client.errors import Misuse, NoRoute
from roquet.client.message import Message
from roquet.model.names import TRANS_CHECK_MAX_TOPIC
from roquet.model.route import QueueName
from roquet.wire.requests.transaction import ResumeCheck


class Transactions:
    """Looks after transactions that were given up."""

    def __init__(self, reach: Reach, queues: Queues) -> None:
        self._reach = reach
        self._queues = queues

    async def given_up(self, *, max: int = PAGE_MAX) -> list[Message]:
        """Return half messages that brokers no longer ask about, oldest first at each broker."""
        found: list[Message] = []
        try:
            queues = await self._queues.of(TRANS_CHECK_MAX_TOPIC)
        except NoRoute:  # only some releases tell the name servers of it
            masters = await self._reach.masters()
            queues = {QueueName(name, 0, TRANS_CHECK_MAX_TOPIC): address for name, address in masters.items()}
        for queue, address in queues.items():
            async for message in self._queues.messages(address, queue):
                if len(found) >= max:
                    return found
                found.append(message)
        return found

    async def resume(self, message: Message) -> None:
        """Have the broker ask about a transaction again that it gave up; takes what `given_up` returned."""
        if message.record.topic != TRANS_CHECK_MAX_TOPIC:
            # Apache makes a half of any message that is named here.
            raise Misuse(
                f"{message.message_id} is no transaction that was given up",
                hint="take one that admin.transactions.given_up() returns",
            )
        topic = message.properties.get("REAL_TOPIC") or message.record.topic
        await self._reach.ask(message.broker, ResumeCheck(topic, message.offset_id))
