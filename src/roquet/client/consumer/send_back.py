"""Giving a message back: it comes again after a delay, or goes to the group's dead letters.

    36 to the broker that has it ──fails──▶ a copy to %RETRY%group ──fails──▶ the caller keeps it

The copy carries what the broker would have set: the real topic, the first id, one attempt more and the
delay. Reference: what Apache's client 5.5.0 does when 36 fails.
"""

from __future__ import annotations

import logging
from typing import Final

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.levels import DEAD_LETTER, level_of_attempt
from roquet.client.errors import RoquetError
from roquet.client.message import Message
from roquet.model.message import SysFlag, format_properties
from roquet.model.names import RETRY_PREFIX
from roquet.wire.requests.retry import SendBack
from roquet.wire.requests.send import SendV2

log = logging.getLogger("roquet.client")

TIMEOUT_SECONDS: Final = 5.0
INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
_KEPT_FLAGS: Final = int(SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK)
_OF_ITS_FIRST_LIFE: Final = frozenset({"DELAY", "MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME", "WAIT"})


class Returns:
    """Sends messages of one group back."""

    def __init__(self, cluster: Cluster, group: str, retries_max: int | None) -> None:
        self._cluster = cluster
        self._group = group
        self._retries_max = retries_max

    async def send(self, message: Message, topic: str, level: int) -> bool:
        """Give a message of `topic` back at a delay level; False when no broker takes it now."""
        try:
            await self._ask_its_broker(message, topic, level)
            return True
        except RoquetError as error:
            log.info("%r is not taken back by its broker, a copy is sent: %s", message, error)
        try:
            await self._send_copy(message, topic, level)
            return True
        except RoquetError as error:
            log.warning("%r cannot be given back, it stays here and is tried again: %s", message, error)
            return False

    async def _ask_its_broker(self, message: Message, topic: str, level: int) -> None:
        route = await self._cluster.route(topic)
        request = SendBack(
            message.log_offset,
            self._group,
            level,
            origin_msg_id=message.message_id,
            origin_topic=topic,
            unit_mode=False,
            max_reconsume_times=self._retries_max,
        )
        await self._cluster.ask(route.master(message.broker), request, timeout_s=TIMEOUT_SECONDS)

    async def _send_copy(self, message: Message, topic: str, level: int) -> None:
        """Send what 36 would have stored as a message of our own.

        Past its retries a broker puts it with the dead letters: none are allowed to one that shall go there.
        """
        record = message.record
        properties = {
            name: value for name, value in message.properties.items() if name not in _OF_ITS_FIRST_LIFE
        }
        properties.setdefault("RETRY_TOPIC", topic)
        properties.setdefault("ORIGIN_MESSAGE_ID", message.offset_id)
        retries_max = record.reconsume_times if level == DEAD_LETTER else self._retries_max
        if level != DEAD_LETTER:
            properties["DELAY"] = str(level or level_of_attempt(record.reconsume_times))
        retry_topic = f"{RETRY_PREFIX}{self._group}"
        route = await self._cluster.publish_route(retry_topic)
        queues = route.write_queues()
        if not queues:
            raise RoquetError(f"no queue of {retry_topic} takes messages now", retriable=True)
        queue = queues[self._cluster.ports.rng.randrange(len(queues))]
        request = SendV2(
            INNER_GROUP, retry_topic, "TBW102", 1, queue.queue_id, record.sys_flag & _KEPT_FLAGS,
            record.born_ms, record.flag, format_properties(properties), record.reconsume_times + 1, False,
            retries_max,
        )  # fmt: skip
        await self._cluster.ask(route.master(queue.broker_name), request, record.body, TIMEOUT_SECONDS)
