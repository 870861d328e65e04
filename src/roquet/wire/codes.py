"""Response codes and the small enumerations of the remoting protocol (Apache RocketMQ 5.5.0)."""

from __future__ import annotations

from enum import IntEnum

VERSION = 513
"""Ordinal of the release whose wire behaviour we follow: 5.5.0."""

VERSION_STANDARD_JSON = 401
"""4.9.4: from here on a client reads route answers in standard JSON."""

VERSION_BROKER_CALLS_CLIENT = 62
"""3.1.8-SNAPSHOT: older consumers cannot be asked for their running state."""

VERSION_MAPPING_IN_REGISTRATION = 413
"""5.0.0: a compressed registration carries the static-topic section."""

FLAG_REPLY = 1
FLAG_ONE_WAY = 2

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY",
    "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
)  # fmt: skip
PYTHON = LANGUAGES.index("PYTHON")


class Code(IntEnum):
    """What an answer says. 10, 11 and 12 mean: stored, with a weaker promise."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    ILLEGAL_OPERATION = 604
    GO_AWAY = 1500
