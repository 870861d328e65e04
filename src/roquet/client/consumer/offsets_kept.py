"""Where a group's positions are kept: at the brokers, or in a file when every member reads everything.

    stored      the position of one queue, None when the group has none yet
    store       at times, while consuming: a lost one only means that messages come again
    store_now   at the end, when another member may ask for it right after

The file is `<dir>/<client id>/<group>/offsets.json` in Apache's form; the one before stays beside it as
`.bak` and is read when the newer cannot be. Nothing else in the client writes files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from roquet.client.cluster.cluster import Cluster
from roquet.client.core import offsets_file
from roquet.client.errors import RoquetError, refusal
from roquet.model.route import QueueName
from roquet.ports import Disk
from roquet.wire.codes import Code
from roquet.wire.requests.offsets import OffsetFound, QueryOffset, UpdateOffset

log = logging.getLogger("roquet.client")

STORE_SECONDS: Final = 5.0
"""How often positions are stored."""


class Kept(Protocol):
    """See the module."""

    async def stored(self, queue: QueueName) -> int | None: ...

    async def store(self, offsets: Mapping[QueueName, int]) -> None: ...

    async def store_now(self, offsets: Mapping[QueueName, int]) -> None: ...


class RemoteOffsets:
    """Positions at the brokers."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster = cluster
        self._group = group

    async def stored(self, queue: QueueName) -> int | None:
        """Ask the queue's broker; raises RoquetError when it cannot tell."""
        address = (await self._cluster.route(queue.topic)).master(queue.broker_name)
        answer = await self._cluster.call(address, QueryOffset(self._group, queue.topic, queue.queue_id))
        if answer.code == Code.QUERY_NOT_FOUND:
            return None
        if answer.code != Code.SUCCESS:
            raise refusal(answer.code, answer.remark, address, "QUERY_CONSUMER_OFFSET")
        return OffsetFound.decode(answer.ext).offset

    async def store(self, offsets: Mapping[QueueName, int]) -> None:
        """Tell the brokers without waiting for their answers."""
        for queue, offset in offsets.items():
            try:
                address = (await self._cluster.route(queue.topic)).master(queue.broker_name)
                await self._cluster.tell(address, self._update(queue, offset))
            except RoquetError as error:
                log.info("the position of %s is stored later: %s", queue, error.what)

    async def store_now(self, offsets: Mapping[QueueName, int]) -> None:
        """Tell the brokers and wait until they have it; what cannot be stored is logged."""
        await asyncio.gather(*[self._store_one(queue, offset) for queue, offset in offsets.items()])

    async def _store_one(self, queue: QueueName, offset: int) -> None:
        try:
            address = (await self._cluster.route(queue.topic)).master(queue.broker_name)
            await self._cluster.ask(address, self._update(queue, offset))
        except RoquetError as error:
            log.warning("position %d of %s is not stored, messages may come again: %s", offset, queue, error)

    def _update(self, queue: QueueName, offset: int) -> UpdateOffset:
        return UpdateOffset(self._group, queue.topic, queue.queue_id, offset)


class LocalOffsets:
    """Positions in a file."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/offsets.json"
        self._offsets = self._load()
        self._written = dict(self._offsets)

    async def stored(self, queue: QueueName) -> int | None:
        return self._offsets.get(queue)

    async def store(self, offsets: Mapping[QueueName, int]) -> None:
        """Write the file anew when something has changed; a disk that refuses is asked again next time."""
        self._offsets |= offsets
        if self._offsets == self._written:
            return
        try:
            self._write()
        except OSError as error:
            log.error("%s cannot be written, messages may come again: %s", self._path, error)

    def _write(self) -> None:
        disk, path = self._disk, self._path
        disk.make_dirs(self._folder)
        disk.write_file(f"{path}.tmp", offsets_file.encode(self._offsets))
        if disk.exists(path):
            disk.rename(path, f"{path}.bak")
        disk.rename(f"{path}.tmp", path)
        self._written = dict(self._offsets)

    async def store_now(self, offsets: Mapping[QueueName, int]) -> None:
        await self.store(offsets)

    def _load(self) -> dict[QueueName, int]:
        for path in (self._path, f"{self._path}.bak"):
            try:
                return offsets_file.decode(self._disk.read_file(path))
            except FileNotFoundError:
                continue
            except ValueError as error:
                log.warning("%s cannot be read, the one before is taken: %s", path, error)
        return {}
