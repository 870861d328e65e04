"""What an operator asks of Apache's broker by raw sockets: settings, groups, statistics, cleaning.

Called by `frames.py` after `broker_cases.py` has filled the broker; `JAVA_GROUP` is the group of the Java
consumer that is online meanwhile.
Reference: org.apache.rocketmq.broker.processor.AdminBrokerProcessor, release 5.5.0.
"""

import json
from typing import Any

from tests.golden.capture.album import Album
from tests.golden.capture.broker_cases import CLIENT, GROUP, PRODUCERS, TOPIC, now_ms
from tests.golden.capture.names_cases import compact
from tests.golden.capture.raw import Wire

JAVA_GROUP = "java_push"
JAVA_TOPIC = "JavaTopic"


def ask_groups(broker: Wire, album: Album) -> None:
    """Create, list, read and delete consumer groups, and ask who is connected."""
    group: dict[str, Any] = {"groupName": "golden_doomed", "consumeEnable": True, "retryQueueNums": 1}
    group |= {"retryMaxTimes": 16, "brokerId": 0, "whichBrokerWhenConsumeSlowly": 1}
    album.keep("update_and_create_subscriptiongroup", broker.ask(200, None, compact(group)))
    bad = compact(group | {"groupName": "bad group!"})
    album.keep("update_and_create_subscriptiongroup", broker.ask(200, None, bad), "bad-name")
    album.keep("get_all_subscriptiongroup_config", broker.ask(201))
    album.keep("get_subscriptiongroup_config", broker.ask(352, {"group": "golden_doomed"}))
    album.keep("get_subscriptiongroup_config", broker.ask(352, {"group": "golden_newborn"}), "auto-created")
    forbid = {"group": "golden_doomed", "topic": TOPIC}
    album.keep("update_and_get_group_forbidden", broker.ask(353, forbid), "read-only")
    album.keep("update_and_get_group_forbidden", broker.ask(353, {**forbid, "readable": False}))
    doomed = {"groupName": "golden_doomed", "cleanOffset": True}
    album.keep("delete_subscriptiongroup", broker.ask(207, doomed))

    album.keep("get_consumer_connection_list", broker.ask(203, {"consumerGroup": GROUP}))
    album.keep("get_consumer_connection_list", broker.ask(203, {"consumerGroup": "ghost"}), "offline")
    album.keep("get_producer_connection_list", broker.ask(204, {"producerGroup": PRODUCERS}))
    album.keep("get_producer_connection_list", broker.ask(204, {"producerGroup": "ghost"}), "absent")
    album.keep("get_all_producer_info", broker.ask(328))
    album.keep("query_topics_by_consumer", broker.ask(343, {"group": GROUP}))
    album.keep("query_subscription_by_consumer", broker.ask(345, {"group": GROUP, "topic": TOPIC}))


def ask_java_consumer(broker: Wire, album: Album) -> None:
    """Ask what the broker has to relay to a live Java consumer."""
    listed = broker.ask(38, {"consumerGroup": JAVA_GROUP})
    (client,) = json.loads(listed.body)["consumerIdList"]
    who = {"consumerGroup": JAVA_GROUP, "clientId": client, "jstackEnable": False}
    album.keep("get_consumer_running_info", broker.ask(307, who), "relayed-to-java")
    album.keep("get_consumer_running_info", broker.ask(307, {**who, "clientId": "ghost"}), "offline")
    status = {"topic": JAVA_TOPIC, "group": JAVA_GROUP}
    album.keep("invoke_broker_to_get_consumer_status", broker.ask(223, status))
    album.keep("get_consume_stats", broker.ask(208, {"consumerGroup": JAVA_GROUP}), "java-consumer")


def ask_progress(broker: Wire, album: Album) -> None:
    """Ask how far groups have come, move them, copy them."""
    both = {"topic": TOPIC, "group": GROUP}
    album.keep("get_topic_stats_info", broker.ask(202, {"topic": TOPIC}))
    album.keep("get_topic_stats_info", broker.ask(202, {"topic": "NoSuchTopic"}), "unknown")
    album.keep("get_consume_stats", broker.ask(208, {"consumerGroup": GROUP}))
    album.keep("get_consume_stats", broker.ask(208, {"consumerGroup": "ghost"}), "unknown-group")
    album.keep("get_broker_consume_stats", broker.ask(317, {"isOrder": False}))
    album.keep("query_topic_consume_by_who", broker.ask(300, {"topic": TOPIC}))
    album.keep("query_consume_time_span", broker.ask(303, both))
    compare = {"compareGroup": GROUP, "topic": TOPIC}
    album.keep("query_correction_offset", broker.ask(308, compare))
    clone = {"srcGroup": GROUP, "destGroup": "golden_clone", "topic": TOPIC, "offline": False}
    album.keep("clone_group_offset", broker.ask(314, clone))
    walk = {"topic": TOPIC, "queueId": 0, "index": 0, "count": 3}
    album.keep("query_consume_queue", broker.ask(321, {**walk, "consumerGroup": GROUP}))
    album.keep("query_consume_queue", broker.ask(321, walk), "no-group")
    album.keep("get_all_consumer_offset", broker.ask(43))
    reset = {**both, "timestamp": 0, "isForce": True}
    album.keep("invoke_broker_to_reset_offset", broker.ask(222, reset))
    unknown = {**reset, "topic": "NoSuchTopic"}
    album.keep("invoke_broker_to_reset_offset", broker.ask(222, unknown), "unknown-topic")
    assign = {"clientId": CLIENT, "consumerGroup": GROUP, "messageModel": "CLUSTERING", "strategyName": "AVG"}
    body = compact(assign | {"topic": TOPIC})
    album.keep("query_assignment", broker.ask(400, {}, body))
    mode = {"consumerGroup": GROUP, "mode": "POP", "popShareQueueNum": 0, "topic": TOPIC}
    album.keep("set_message_request_mode", broker.ask(401, {}, compact(mode)))
    album.keep("query_assignment", broker.ask(400, {}, body), "after-401")
    album.keep("get_all_message_request_mode", broker.ask(402))


def ask_state(broker: Wire, album: Album) -> None:
    """Ask for the broker's own state and settings, then clean and delete."""
    album.keep("get_all_topic_config", broker.ask(21))
    album.keep("get_all_topic_config", broker.ask(21, {"topicSeq": 0, "maxTopicNum": 3}), "page")
    album.keep("get_topic_config", broker.ask(351, {"topic": TOPIC}))
    album.keep("get_topic_config", broker.ask(351, {"topic": "NoSuchTopic"}), "unknown")
    album.keep("get_system_topic_list_from_broker", broker.ask(305))
    album.keep("update_broker_config", broker.ask(25, None, b"longPollingEnable=true\n"))
    album.keep("update_broker_config", broker.ask(25, None, b"brokerConfigPath=x\n"), "forbidden")
    album.keep("get_broker_config", broker.ask(26))
    album.keep("get_broker_runtime_info", broker.ask(28))
    stats = {"statsName": "TOPIC_PUT_NUMS", "statsKey": TOPIC}
    album.keep("view_broker_stats_data", broker.ask(315, stats))
    album.keep("view_broker_stats_data", broker.ask(315, {**stats, "statsKey": "ghost"}), "unknown")
    album.keep("get_all_delay_offset", broker.ask(45))
    album.keep("get_timer_check_point", broker.ask(60))
    album.keep("get_timer_metrics", broker.ask(61))
    album.keep("get_broker_ha_status", broker.ask(907))
    album.keep("clean_expired_consumequeue", broker.ask(306))
    album.keep("clean_unused_topic", broker.ask(316))
    album.keep("delete_expired_commitlog", broker.ask(329))
    album.keep("delete_topic_in_broker", broker.ask(215, {"topic": "GoldenDoomed"}))
    album.keep("delete_topic_in_broker", broker.ask(215, {"topic": "TBW102"}), "system-topic")
    album.keep("unknown", broker.ask(9999), "broker")


def ask_pops(broker: Wire, album: Album) -> None:
    """Take messages with an invisible time, acknowledge one, put one off, and ask for more."""
    pop = {
        "consumerGroup": "golden_pop",
        "topic": TOPIC,
        "queueId": 0,
        "maxMsgNums": 2,
        "invisibleTime": 60_000,
    }
    pop |= {"pollTime": 0, "bornTime": now_ms(), "initMode": 0, "expType": "TAG", "exp": "*", "order": False}
    taken = broker.ask(200050, pop)
    album.keep("pop_message", taken)
    fields = taken.header.fields
    start = fields["startOffsetInfo"].split(" ")[2]
    info = [start, fields["popTime"], fields["invisibleTime"], fields["reviveQid"], "0", "broker-a", "0"]
    shared = {"consumerGroup": "golden_pop", "topic": TOPIC, "queueId": 0}
    first = {**shared, "extraInfo": " ".join([*info, "0"]), "offset": 0}
    album.keep("ack_message", broker.ask(200051, first))
    second = {**shared, "extraInfo": " ".join([*info, "1"]), "offset": 1, "invisibleTime": 30_000}
    album.keep("change_message_invisibletime", broker.ask(200053, second))
    album.keep("ack_message", broker.ask(200051, {**first, "offset": 1 << 40}), "bad-offset")
    waiting = {**shared, "pollTime": 0, "bornTime": now_ms(), "order": False}
    album.keep("notification", broker.ask(200054, waiting))


def ask_leave(broker: Wire, album: Album) -> None:
    """Leave both groups."""
    leave = {"clientID": CLIENT, "producerGroup": PRODUCERS, "consumerGroup": GROUP}
    album.keep("unregister_client", broker.ask(35, leave))
