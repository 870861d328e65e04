"""What is asked of Apache's broker by raw sockets: sends, pulls, offsets, membership, refusals.

Called by `frames.py`. Steps in order: what an answer says depends on what was done before it. Topics, groups
and message properties are fixed; clocks and addresses are those of the run.
Reference: org.apache.rocketmq.broker.processor, release 5.5.0.
"""

import time
from collections.abc import Callable
from struct import pack
from typing import Any

from tests.golden.capture.album import Album
from tests.golden.capture.names_cases import compact, topic_config
from tests.golden.capture.raw import BINARY_TYPE, Exchange, Wire, body_of

TOPIC = "GoldenTopic"
GROUP = "golden_group"
PRODUCERS = "golden_producers"
CLIENT = "127.0.0.1@golden"
PATIENCE_S = 30.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def until(ask: Callable[[], Exchange], good: Callable[[Exchange], bool]) -> Exchange:
    """Ask again until the answer is good: dispatch to queues and index lags a little behind the send."""
    deadline = time.monotonic() + PATIENCE_S
    while not good(taken := ask()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the broker still says {taken.header}")
        time.sleep(0.05)
    return taken


def properties(number: int, tag: str = "TagA", **more: str) -> str:
    """Return a property string as a client sends it."""
    pairs = {
        "KEYS": f"key{number} all",
        "UNIQ_KEY": f"7F0000010001{number:020X}",
        "WAIT": "true",
        "TAGS": tag,
    }
    return "".join(f"{name}\1{value}\2" for name, value in (pairs | more).items())


def send_fields(number: int, queue_id: int = 0, **more: Any) -> dict[str, Any]:
    """Return the fields of SEND_MESSAGE_V2."""
    fields = {"a": PRODUCERS, "b": TOPIC, "c": "TBW102", "d": 4, "e": queue_id, "f": 0, "g": now_ms(), "h": 7}
    fields |= {"i": properties(number), "j": 0, "k": False, "m": False}
    return fields | more


def ask_sends(broker: Wire, album: Album) -> None:
    """Create the topic, then send in every way, and be refused in every way."""
    create = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    create |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}
    album.keep("update_and_create_topic", broker.ask(17, create))
    album.keep("update_and_create_topic", broker.ask(17, {**create, "topic": "bad topic!"}), "bad-name")
    typed = {**create, "topic": "GoldenTyped", "attributes": "+message.type=FIFO"}
    album.keep("update_and_create_topic", broker.ask(17, typed), "attributes")
    wrong = {**create, "topic": "GoldenWrong", "attributes": "+message.tipe=FIFO"}
    album.keep("update_and_create_topic", broker.ask(17, wrong), "bad-attribute")
    several = compact({"topicConfigList": [topic_config(name, 2) for name in ("GoldenOne", "GoldenDoomed")]})
    album.keep("update_and_create_topic_list", broker.ask(18, {}, several))

    first = {"producerGroup": PRODUCERS, "topic": TOPIC, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4}
    first |= {"queueId": 0, "sysFlag": 0, "bornTimestamp": now_ms(), "flag": 7, "properties": properties(0)}
    first |= {"reconsumeTimes": 0, "unitMode": False, "batch": False}
    album.keep("send_message", broker.ask(10, first, b"hello by code 10"))
    send = "send_message_v2"
    album.keep(send, broker.ask(310, send_fields(1), b"hello"))
    album.keep(
        send, broker.ask(310, send_fields(2), "grüße, 漢字".encode(), kind=BINARY_TYPE), "binary-request"
    )
    album.keep(send, broker.ask(310, send_fields(3), b"old", version=317), "version-317")
    album.keep(send, broker.ask(310, send_fields(4, i=properties(4, "TagB")), b"tagged"), "other-tag")
    album.keep(send, broker.ask(310, send_fields(5, i=None), b"bare"), "no-properties")
    album.keep(send, broker.ask(310, send_fields(6, 1, i=properties(6, DELAY="3")), b"later"), "delay-level")
    timer = properties(7, TIMER_DELAY_MS="60000")
    album.keep(send, broker.ask(310, send_fields(7, 1, i=timer), b"at its time"), "timer")
    half = properties(8, TRAN_MSG="true", PGROUP=PRODUCERS)
    album.keep(send, broker.ask(310, send_fields(8, 1, i=half, f=4), b"half"), "transaction-half")
    album.keep(
        send, broker.ask(310, send_fields(9, b="GoldenBorn"), b"creates its topic"), "auto-created-topic"
    )
    album.keep(send, broker.ask(310, send_fields(10, b="bad topic!"), b"x"), "bad-topic")
    album.keep(send, broker.ask(310, send_fields(11, b="SCHEDULE_TOPIC_XXXX"), b"x"), "system-topic")
    album.keep(send, broker.ask(310, send_fields(12, 99), b"x"), "bad-queue")
    missing = send_fields(13, b="NoSuchTopic", c="NoTemplate")
    album.keep(send, broker.ask(310, missing, b"x"), "unknown-topic")
    large = send_fields(14, i=properties(14, LONG="x" * 32700))
    album.keep(send, broker.ask(310, large, b"x"), "properties-too-long")

    members = b"".join(_batched(number, f"batch {number}".encode()) for number in range(20, 23))
    batch = send_fields(19, 2, m=True, i=properties(19))
    album.keep("send_batch_message", broker.ask(320, batch, members))


def _batched(number: int, body: bytes) -> bytes:
    text = properties(number).encode()
    rest = pack(">iiii", 0, 0, 0, len(body)) + body + pack(">h", len(text)) + text
    return pack(">i", 4 + len(rest)) + rest


def heartbeat(consumers: bool = True) -> bytes:
    """Return a heartbeat of one producer group and, if asked, one consumer group."""
    subscription = {
        "classFilterMode": False,
        "codeSet": [2598919],
        "expressionType": "TAG",
        "subString": "TagA",
    }
    subscription |= {"subVersion": 1_700_000_000_000, "tagsSet": ["TagA"], "topic": TOPIC}
    consumer: dict[str, Any] = {
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY",
    }
    consumer |= {"groupName": GROUP, "messageModel": "CLUSTERING", "subscriptionDataSet": [subscription]}
    consumer |= {"unitMode": False}
    return compact(
        {
            "clientID": CLIENT,
            "consumerDataSet": [consumer] if consumers else [],
            "heartbeatFingerprint": 0,
            "producerDataSet": [{"groupName": PRODUCERS}],
            "withoutSub": False,
        }
    )


def ask_membership(broker: Wire, album: Album) -> None:
    """Join as producer and consumer; the broker then tells the group that its members changed."""
    album.keep("get_consumer_list_by_group", broker.ask(38, {"consumerGroup": GROUP}), "nobody")
    album.keep("heart_beat", broker.ask(34, {}, heartbeat(consumers=False)), "producer")
    album.keep("heart_beat", broker.ask(34, {}, heartbeat()), "consumer")
    while not broker.pushed:
        broker.pushed.append(broker.read())
    album.keep(
        "notify_consumer_ids_changed", Exchange(broker.pushed[0], b""), sender="Apache's broker, to us"
    )
    album.keep("get_consumer_list_by_group", broker.ask(38, {"consumerGroup": GROUP}))
    queues = [{"brokerName": "broker-a", "queueId": queue, "topic": TOPIC} for queue in (0, 1)]
    lock = {"clientId": CLIENT, "consumerGroup": GROUP, "mqSet": queues, "onlyThisBroker": False}
    album.keep("lock_batch_mq", broker.ask(41, {}, compact(lock)))
    album.keep(
        "lock_batch_mq", broker.ask(41, {}, compact(lock | {"clientId": "another"})), "held-by-another"
    )
    album.keep("unlock_batch_mq", broker.ask(42, {}, compact(lock)))


def ask_pulls(broker: Wire, album: Album) -> None:
    """Read messages, and every way of reading none."""
    full = {"topic": TOPIC, "queueId": 0}
    until(lambda: broker.ask(30, full), lambda taken: taken.header.fields["offset"] == "6")
    pull: dict[str, Any] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "queueOffset": 0}
    pull |= {
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 1000,
        "subscription": "*",
    }
    pull |= {"subVersion": 1_700_000_000_000, "expressionType": "TAG"}
    name = "pull_message"
    album.keep(name, broker.ask(11, pull))
    album.keep(name, broker.ask(11, pull, kind=BINARY_TYPE), "binary-request")
    album.keep(name, broker.ask(11, {**pull, "subscription": "TagB"}), "by-tag")
    album.keep(name, broker.ask(11, {**pull, "subscription": "TagZ"}), "no-match")
    album.keep(
        name, broker.ask(11, {**pull, "sysFlag": 0, "subscription": None}), "by-heartbeat-subscription"
    )
    album.keep(name, broker.ask(11, {**pull, "queueOffset": 6}), "at-end")
    album.keep(name, broker.ask(11, {**pull, "queueOffset": 60}), "beyond-end")
    album.keep(name, broker.ask(11, {**pull, "queueOffset": -1}), "before-start")
    album.keep(name, broker.ask(11, {**pull, "maxMsgNums": 0}), "max-zero")
    album.keep(name, broker.ask(11, {**pull, "queueId": 3}), "empty-queue")
    album.keep(name, broker.ask(11, {**pull, "queueId": 9}), "bad-queue")
    album.keep(name, broker.ask(11, {**pull, "topic": "NoSuchTopic"}), "unknown-topic")
    stranger = {**pull, "consumerGroup": "golden_stranger", "sysFlag": 0}
    album.keep(name, broker.ask(11, stranger), "no-subscription")
    later = {**pull, "sysFlag": 0, "subVersion": 1_800_000_000_000}
    album.keep(name, broker.ask(11, later), "newer-subscription")
    album.keep(name, broker.ask(11, {**pull, "expressionType": "SQL92", "subscription": "a>1"}), "sql")
    album.keep("lite_pull_message", broker.ask(361, {**pull, "sysFlag": 20, "maxMsgBytes": 2147483647}))


def ask_queries(broker: Wire, album: Album) -> None:
    """Ask for single messages, by key and by log offset, and for the bounds of a queue."""
    span = {"maxNum": 32, "beginTimestamp": 0, "endTimestamp": now_ms() + 60_000}
    by_key = {"topic": TOPIC, "key": "key1", **span}
    found = until(lambda: broker.ask(12, by_key), lambda taken: taken.header.code == 0)
    album.keep("query_message", found)
    unique = {"topic": TOPIC, "key": f"7F0000010001{1:020X}", **span, "_UNIQUE_KEY_QUERY": True}
    album.keep("query_message", broker.ask(12, unique), "unique-key")
    album.keep("query_message", broker.ask(12, {**by_key, "key": "no such key"}), "absent")
    log_offset = int.from_bytes(body_of(found.response)[28:36])
    album.keep("view_message_by_id", broker.ask(33, {"offset": log_offset}))
    album.keep("view_message_by_id", broker.ask(33, {"offset": log_offset + 1}), "inside-a-record")
    album.keep("view_message_by_id", broker.ask(33, {"offset": 1 << 40}), "beyond-the-log")

    queue = {"topic": TOPIC, "queueId": 0}
    album.keep("get_max_offset", broker.ask(30, queue))
    album.keep("get_max_offset", broker.ask(30, queue, kind=BINARY_TYPE), "binary-request")
    album.keep("get_max_offset", broker.ask(30, {"topic": "NoSuchTopic", "queueId": 0}), "unknown-topic")
    album.keep("get_max_offset", broker.ask(30, {"topic": TOPIC}), "missing-field")
    album.keep("get_min_offset", broker.ask(31, queue))
    album.keep("get_earliest_msg_storetime", broker.ask(32, queue))
    album.keep("get_earliest_msg_storetime", broker.ask(32, {**queue, "queueId": 3}), "empty-queue")
    search = "search_offset_by_timestamp"
    album.keep(search, broker.ask(29, {**queue, "timestamp": 0}))
    album.keep(search, broker.ask(29, {**queue, "timestamp": now_ms(), "boundaryType": "UPPER"}), "upper")
    album.keep(search, broker.ask(29, {**queue, "timestamp": now_ms() + 60_000}), "future")

    mine = {"consumerGroup": GROUP, **queue}
    album.keep("query_consumer_offset", broker.ask(14, mine), "none-stored")
    strict = {**mine, "setZeroIfNotFound": False}
    album.keep("query_consumer_offset", broker.ask(14, strict), "none-stored-strict")
    album.keep("update_consumer_offset", broker.ask(15, {**mine, "commitOffset": 2}))
    ghost = {**mine, "consumerGroup": "ghost", "commitOffset": 2}
    album.keep("update_consumer_offset", broker.ask(15, ghost), "unknown-group")
    album.keep("query_consumer_offset", broker.ask(14, mine))
