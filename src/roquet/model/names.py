"""Names: what a topic, group or broker may be called, and the names that mean something.

Checked at every entrance (wire, files, replication): a topic becomes a folder, so a name with a slash,
a dot or a NUL never gets further than here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

TOPIC_CHARS_MAX: Final = 127
LONG_TOPIC_CHARS_MAX: Final = 255
GROUP_CHARS_MAX: Final = 120
ALLOWED: Final = "^[%|a-zA-Z0-9_-]+$"

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
SYSTEM_PREFIX: Final = "rmq_sys_"

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRANS_CHECK_MAX_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"

SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        TRACE_TOPIC,
        TRANS_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)

NO_SEND_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        TRANS_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics that only the broker itself writes to."""

SYSTEM_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

_LEGAL = re.compile(r"[%|a-zA-Z0-9_\-]+", re.ASCII)


@lru_cache(maxsize=4096)
def topic_fault(topic: str) -> str:
    """Return what is wrong with a topic's name, in the protocol's words; empty when nothing is."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _LEGAL.fullmatch(topic):
        return f"The specified topic: {_shown(topic)}, contains illegal characters, allowing only {ALLOWED}"
    if is_retry(topic) or is_dead_letter(topic):
        if len(topic) > LONG_TOPIC_CHARS_MAX:
            return f"The specified topic is longer than topic max length {LONG_TOPIC_CHARS_MAX}."
    elif len(topic) > TOPIC_CHARS_MAX:
        return f"The specified topic is longer than topic max length {TOPIC_CHARS_MAX}."
    return ""


def group_fault(group: str) -> str:
    """Return what is wrong with a group's name; empty when nothing is."""
    if not group.strip():
        return "The specified group is blank."
    if len(group) > GROUP_CHARS_MAX:
        return f"The specified group is longer than group max length {GROUP_CHARS_MAX}."
    if not _LEGAL.fullmatch(group):
        return f"The specified group: {_shown(group)}, contains illegal characters, allowing only {ALLOWED}"
    return ""


def is_retry(topic: str) -> bool:
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter(topic: str) -> bool:
    return topic.startswith(DLQ_PREFIX)


def is_system(topic: str) -> bool:
    """True for topics that belong to the broker and not to a user."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX)


def _shown(name: str) -> str:
    return name[:80].encode("unicode_escape").decode()
