"""Topics: their settings, permission bits and data versions.

Fields stand in the order in which Apache writes them (alphabetical), since these values go as they are
into topics.json, registrations and answers.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import msgspec


class Perm(IntFlag):
    """What may be done with a topic or a broker."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


READ_WRITE: Final = int(Perm.READ | Perm.WRITE)

SYS_UNIT: Final = 1
SYS_UNIT_SUB: Final = 2

ATTRIBUTE_RESERVE_TIME: Final = "reserve.time"
ATTRIBUTE_MESSAGE_TYPE: Final = "message.type"
ATTRIBUTE_QUEUE_TYPE: Final = "queue.type"
ATTRIBUTE_CLEANUP_POLICY: Final = "cleanup.policy"


class DataVersion(msgspec.Struct, frozen=True, rename="camel"):
    """How new a table is; equal only when all three are."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0

    def next(self, now_ms: int) -> DataVersion:
        """Return the version after one more change."""
        return DataVersion(self.counter + 1, self.state_version, now_ms)


class Topic(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The settings of one topic on one broker."""

    attributes: dict[str, str] = {}
    order: bool = False
    perm: int = READ_WRITE
    read_queue_nums: int = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str
    topic_sys_flag: int = 0
    write_queue_nums: int = 16

    @property
    def is_readable(self) -> bool:
        return bool(self.perm & 4)

    @property
    def is_writable(self) -> bool:
        return bool(self.perm & 2)
