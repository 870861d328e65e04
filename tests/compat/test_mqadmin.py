"""Apache's mqadmin 5.5.0 against a cluster, command by command, judged by what it prints.

One JVM runs all commands (`tests/peers/mqadmin.py`), another keeps a producer and a consumer alive for the
commands that look at clients. Every test uses topics and groups of its own. `ROQUET_TEST_TARGET=apache`
points the file at Apache's own broker.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.peers.cluster import Cluster, running_cluster
from tests.peers.java import JavaClient, fresh_name
from tests.peers.mqadmin import Mqadmin

pytestmark = [pytest.mark.java, pytest.mark.process]

CLUSTER = "DefaultCluster"
BROKER = "broker-a"

LIVE_TOPIC = "LiveTopic"
LIVE_GROUP = "LiveGroup"
LIVE_PRODUCER = "LiveProducer"
LIVE_QUEUES = 4
LIVE_COUNT = 12


class Live(NamedTuple):
    """The clients that stay: their ids, after they have sent and consumed `LIVE_COUNT` messages."""

    producer: str
    consumer: str


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("mqadmin")) as running:
        yield running


@pytest.fixture(scope="module")
def mqadmin(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mqadmin]:
    with Mqadmin(cluster.namesrv, tmp_path_factory.mktemp("tools")) as running:
        yield running


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with JavaClient("5.5.0", tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.fixture(scope="module")
def live(client: JavaClient, cluster: Cluster, mqadmin: Mqadmin) -> Iterator[Live]:
    held = client.run(
        "hold",
        cluster.namesrv,
        topic=LIVE_TOPIC,
        group=LIVE_GROUP,
        producer_group=LIVE_PRODUCER,
        queues=LIVE_QUEUES,
        count=LIVE_COUNT,
    )
    # Clients tell the broker one way how far they are; what is asked here comes over another connection.
    mqadmin.run_until("Consume Diff Total: 0", "consumerProgress", "-g", LIVE_GROUP, "-t", LIVE_TOPIC)
    producers = ("-g", LIVE_PRODUCER, "-t", LIVE_TOPIC)
    mqadmin.run_until(held["producer_client"], "producerConnection", *producers)
    yield Live(held["producer_client"], held["consumer_client"])
    client.run("release", cluster.namesrv)


@pytest.fixture
def topic(mqadmin: Mqadmin) -> str:
    """A new topic with four queues."""
    name = fresh_name("T")
    mqadmin.run("updateTopic", "-c", CLUSTER, "-t", name, "-r", "4", "-w", "4")
    return name


@pytest.fixture
def group(mqadmin: Mqadmin) -> str:
    """A new group that nobody consumes in; its retry topic is how mqadmin finds its brokers."""
    return _offline_group(mqadmin)


def _offline_group(mqadmin: Mqadmin) -> str:
    name = fresh_name("G")
    mqadmin.run("updateSubGroup", "-c", CLUSTER, "-g", name)
    mqadmin.run("updateTopic", "-c", CLUSTER, "-t", f"%RETRY%{name}", "-r", "1", "-w", "1")
    return name


def _rows(output: str) -> list[list[str]]:
    """Split a table into words, without its heading."""
    return [line.split() for line in output.splitlines() if line.strip() and not line.startswith("#")]


def _values(output: str, sign: str) -> dict[str, str]:
    """Read lines of `key sign value`."""
    pairs = (line.split(sign, 1) for line in output.splitlines() if sign in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _send(mqadmin: Mqadmin, topic: str, body: str, *more: str) -> str:
    """Send one message to queue 1 and return its unique key."""
    output = mqadmin.run("sendMessage", "-t", topic, "-p", body, "-b", BROKER, "-i", "1", *more)
    ((broker, queue, status, key),) = _rows(output)
    assert (broker, queue, status) == (BROKER, "1", "SEND_OK")
    return key


def _offsets(output: str) -> dict[int, int]:
    """Read the table of resetOffsetByTime and skipAccumulatedMessage: queue to offset."""
    return {int(row[1]): int(row[2]) for row in _rows(output) if row[0] == BROKER}


def _progress(mqadmin: Mqadmin, group: str, topic: str) -> dict[int, tuple[int, int]]:
    """Read consumerProgress: queue to (broker offset, consumer offset)."""
    rows = _rows(mqadmin.run("consumerProgress", "-g", group))
    return {int(row[2]): (int(row[3]), int(row[4])) for row in rows if row[0] == topic}


class TestCluster:
    def test_cluster_list(self, mqadmin: Mqadmin, cluster: Cluster) -> None:
        (row,) = _rows(mqadmin.run("clusterList"))
        assert row[:4] == [CLUSTER, BROKER, "0", cluster.broker]
        assert re.fullmatch(r"V\d+_\d+_\d+", row[4])
        assert row[-1] == "true"

    def test_cluster_list_counts_messages(self, mqadmin: Mqadmin, topic: str) -> None:
        before = int(_rows(mqadmin.run("clusterList", "-m"))[0][4])
        _send(mqadmin, topic, "one")
        assert int(_rows(mqadmin.run("clusterList", "-m"))[0][4]) > before

    def test_broker_status(self, mqadmin: Mqadmin, cluster: Cluster, topic: str) -> None:
        _send(mqadmin, topic, "one")
        status = _values(mqadmin.run("brokerStatus", "-b", cluster.broker), ":")
        assert status["brokerActive"] == "true"
        assert status["brokerVersionDesc"].startswith("V")
        assert int(status["bootTimestamp"]) > 1_600_000_000_000
        assert int(status["msgPutTotalTodayNow"]) >= 1
        assert int(status["commitLogMaxOffset"]) > int(status["commitLogMinOffset"]) >= 0
        assert 0 <= float(status["commitLogDiskRatio"]) <= 1
        assert "days" in status["runtime"]
        for rate in ("putTps", "getTotalTps", "getFoundTps", "getMissTps", "getTransferredTps"):
            assert all(float(number) >= 0 for number in status[rate].split())

    def test_broker_status_of_the_cluster(self, mqadmin: Mqadmin, cluster: Cluster) -> None:
        lines = mqadmin.run("brokerStatus", "-c", CLUSTER).splitlines()
        assert any(line.split() == [cluster.broker, "brokerActive", ":", "true"] for line in lines)

    def test_broker_config(self, mqadmin: Mqadmin, cluster: Cluster) -> None:
        config = _values(mqadmin.run("getBrokerConfig", "-b", cluster.broker), "=")
        assert config["brokerName"] == BROKER
        assert config["brokerClusterName"] == CLUSTER
        assert config["brokerId"] == "0"
        assert config["listenPort"] == cluster.broker.rsplit(":", 1)[1]
        assert config["brokerRole"] == "ASYNC_MASTER"
        assert config["flushDiskType"] == "ASYNC_FLUSH"
        assert config["maxMessageSize"] == "4194304"
        assert config["autoCreateTopicEnable"] == "true"

    def test_update_broker_config(self, mqadmin: Mqadmin, cluster: Cluster) -> None:
        for hours in ("73", "72"):
            change = ("-k", "fileReservedTime", "-v", hours)
            assert "update broker config success" in mqadmin.run(
                "updateBrokerConfig", "-b", cluster.broker, *change
            )
            config = _values(mqadmin.run("getBrokerConfig", "-c", CLUSTER), "=")
            assert config["fileReservedTime"] == hours

    def test_update_broker_config_refuses_what_is_not_to_be_changed(
        self, mqadmin: Mqadmin, cluster: Cluster
    ) -> None:
        output = mqadmin.fails(
            "updateBrokerConfig", "-b", cluster.broker, "-k", "rocketmqHome", "-v", "elsewhere"
        )
        assert "CODE: 16" in output

    @pytest.mark.parametrize("command", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"])
    def test_cleaning(self, mqadmin: Mqadmin, cluster: Cluster, live: Live, command: str) -> None:
        assert mqadmin.run(command, "-b", cluster.broker).strip() == "success"
        assert mqadmin.run(command, "-c", CLUSTER).strip() == "success"
        # A topic with messages, and those messages, are still there.
        assert len(_rows(mqadmin.run("topicStatus", "-t", LIVE_TOPIC))) >= LIVE_QUEUES


class TestTopics:
    def test_new_topic_in_route_list_and_cluster(self, mqadmin: Mqadmin, cluster: Cluster) -> None:
        topic = fresh_name("T")
        output = mqadmin.run(
            "updateTopic", "-b", cluster.broker, "-t", topic, "-r", "3", "-w", "2", "-p", "6"
        )
        assert f"create topic to {cluster.broker} success" in output
        row = _rows(mqadmin.run("topicRoute", "-t", topic, "-l"))[0]
        assert row == [CLUSTER, BROKER, f"{{0={cluster.broker}}}", "3", "2", "6"]
        route = mqadmin.run("topicRoute", "-t", topic)
        assert f'0:"{cluster.broker}"' in route
        assert '"readQueueNums":3' in route and '"writeQueueNums":2' in route
        assert topic in mqadmin.run("topicList").split()
        assert mqadmin.run("topicClusterList", "-t", topic).split() == [CLUSTER]

    def test_topic_list_with_consumers(self, mqadmin: Mqadmin, live: Live) -> None:
        assert [CLUSTER, LIVE_TOPIC, LIVE_GROUP] in _rows(mqadmin.run("topicList", "-c"))

    def test_illegal_topic(self, mqadmin: Mqadmin) -> None:
        assert "CODE: 29" in mqadmin.fails("updateTopic", "-c", CLUSTER, "-t", "bad!", "-r", "1", "-w", "1")

    def test_unknown_topic(self, mqadmin: Mqadmin) -> None:
        assert "CODE: 17" in mqadmin.fails("topicRoute", "-t", fresh_name("nobody"))

    def test_permission(self, mqadmin: Mqadmin, cluster: Cluster, topic: str) -> None:
        output = mqadmin.run("updateTopicPerm", "-t", topic, "-p", "4", "-b", cluster.broker)
        assert f"update topic perm from 6 to 4 in {cluster.broker} success" in output
        assert _rows(mqadmin.run("topicRoute", "-t", topic, "-l"))[0][-1] == "4"
        assert "No route info of this topic" in mqadmin.fails("sendMessage", "-t", topic, "-p", "refused")
        assert "from 4 to 6" in mqadmin.run("updateTopicPerm", "-t", topic, "-p", "6", "-c", CLUSTER)
        _send(mqadmin, topic, "taken")

    def test_delete(self, mqadmin: Mqadmin, topic: str) -> None:
        _send(mqadmin, topic, "gone")
        output = mqadmin.run("deleteTopic", "-c", CLUSTER, "-t", topic)
        assert f"delete topic [{topic}] from cluster [{CLUSTER}] success" in output
        assert f"delete topic [{topic}] from NameServer success" in output
        assert "CODE: 17" in mqadmin.fails("topicRoute", "-t", topic)
        assert topic not in mqadmin.run("topicList").split()

    def test_status(self, mqadmin: Mqadmin, topic: str) -> None:
        _send(mqadmin, topic, "one")
        _send(mqadmin, topic, "two")
        rows = _rows(mqadmin.run("topicStatus", "-t", topic))
        offsets = {int(row[1]): (int(row[2]), int(row[3])) for row in rows if row[0] == BROKER}
        assert offsets == {0: (0, 0), 1: (0, 2), 2: (0, 0), 3: (0, 0)}
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", rows[1][4])

    def test_allocate(self, mqadmin: Mqadmin, topic: str) -> None:
        shares = json.loads(mqadmin.run("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2"))["result"]
        queues = {address: {each["queueId"] for each in share} for address, share in shares.items()}
        assert sorted(queues) == ["10.0.0.1", "10.0.0.2"]
        assert [len(share) for share in queues.values()] == [2, 2]
        assert set.union(*queues.values()) == {0, 1, 2, 3}


class TestNameServer:
    def test_config(self, mqadmin: Mqadmin, cluster: Cluster) -> None:
        config = _values(mqadmin.run("getNamesrvConfig"), "=")
        assert config["listenPort"] == cluster.namesrv.rsplit(":", 1)[1]

    def test_key_value(self, mqadmin: Mqadmin, topic: str) -> None:
        # updateOrderConf reads the same table, so it shows what updateKvConfig wrote.
        where = ("-s", "ORDER_TOPIC_CONFIG", "-k", topic)
        assert "success" in mqadmin.run("updateKvConfig", *where, "-v", f"{BROKER}:4")
        assert f"orderConf=[{BROKER}:4]" in mqadmin.run("updateOrderConf", "-t", topic, "-m", "get")
        assert "success" in mqadmin.run("deleteKvConfig", *where)
        assert "CODE: 22" in mqadmin.fails("updateOrderConf", "-t", topic, "-m", "get")

    def test_order_conf(self, mqadmin: Mqadmin, topic: str) -> None:
        put = mqadmin.run("updateOrderConf", "-t", topic, "-m", "put", "-v", f"{BROKER}:2")
        assert "update orderConf success" in put
        assert f"orderConf=[{BROKER}:2]" in mqadmin.run("updateOrderConf", "-t", topic, "-m", "get")
        assert "delete orderConf success" in mqadmin.run("updateOrderConf", "-t", topic, "-m", "delete")
        assert "CODE: 22" in mqadmin.fails("updateOrderConf", "-t", topic, "-m", "get")

    def test_ordered_topic(self, mqadmin: Mqadmin, cluster: Cluster) -> None:
        topic = fresh_name("T")
        # mqadmin prints a stack trace about the missing old value and goes on.
        output = mqadmin.show(
            "updateTopic", "-b", cluster.broker, "-t", topic, "-r", "2", "-w", "2", "-o", "true"
        )
        assert f"create topic to {cluster.broker} success" in output
        assert f"orderConf=[{BROKER}:2]" in mqadmin.run("updateOrderConf", "-t", topic, "-m", "get")

    def test_write_permission_of_a_broker(self, mqadmin: Mqadmin, cluster: Cluster, topic: str) -> None:
        wiped = mqadmin.run("wipeWritePerm", "-b", BROKER)
        try:
            assert _rows(mqadmin.run("topicRoute", "-t", topic, "-l"))[0][-1] == "4"
        finally:
            added = mqadmin.run("addWritePerm", "-b", BROKER)
        assert _rows(mqadmin.run("topicRoute", "-t", topic, "-l"))[0][-1] == "6"
        (wiped_count,) = re.findall(rf"name server\[{re.escape(cluster.namesrv)}\] OK, (\d+)", wiped)
        assert int(wiped_count) >= 1
        assert added.strip().endswith(f"OK, {wiped_count}")


class TestMessages:
    def test_query_by_offset_id_key_and_unique_key(self, mqadmin: Mqadmin, topic: str) -> None:
        unique = _send(mqadmin, topic, "found", "-k", "SomeKey", "-c", "SomeTag")
        by_offset = mqadmin.run("queryMsgByOffset", "-t", topic, "-b", BROKER, "-i", "1", "-o", "0")
        message = _values(by_offset, ":")
        assert (message["Topic"], message["Tags"], message["Keys"]) == (topic, "[SomeTag]", "[SomeKey]")
        assert (message["Queue ID"], message["Queue Offset"], message["Reconsume Times"]) == ("1", "0", "0")
        assert f"UNIQ_KEY={unique}" in message["Properties"]

        by_id = _values(mqadmin.run("queryMsgById", "-t", topic, "-i", message["OffsetID"]), ":")
        assert by_id["CommitLog Offset"] == message["CommitLog Offset"]
        assert by_id["Store Timestamp"] == message["Store Timestamp"]
        by_unique = _values(mqadmin.run_until(topic, "queryMsgByUniqueKey", "-t", topic, "-i", unique), ":")
        assert by_unique["CommitLog Offset"] == message["CommitLog Offset"]
        assert by_unique["Keys"] == "[SomeKey]"
        by_key = _rows(mqadmin.run_until(unique, "queryMsgByKey", "-t", topic, "-k", "SomeKey"))
        assert [row[:3] for row in by_key] == [[unique, "1", "0"]]

    def test_unknown_message(self, mqadmin: Mqadmin, topic: str) -> None:
        assert "CODE: 208" in mqadmin.fails("queryMsgByKey", "-t", topic, "-k", "nobody")

    def test_consume_queue(self, mqadmin: Mqadmin, cluster: Cluster, topic: str) -> None:
        _send(mqadmin, topic, "one", "-c", "TagX")
        _send(mqadmin, topic, "two")
        where = ("-t", topic, "-q", "1", "-i", "0", "-c", "10")
        output = mqadmin.run_until("max: 2, min: 0", "queryCq", *where, "-b", cluster.broker)
        entries = re.findall(r"physicOffset=(\d+), physicSize=(\d+), tagsCode=(-?\d+)", output)
        assert len(entries) == 2
        assert int(entries[1][0]) >= int(entries[0][0]) + int(entries[0][1])
        assert [entry[2] for entry in entries] == ["2598942", "0"]  # "TagX".hashCode() in Java
        assert mqadmin.run("queryCq", *where) == output

    def test_print(self, mqadmin: Mqadmin, topic: str) -> None:
        keys = [
            _send(mqadmin, topic, "red one", "-c", "red"),
            _send(mqadmin, topic, "blue one", "-c", "blue"),
        ]
        whole = mqadmin.run("printMsg", "-t", topic, "-d", "true")
        assert re.findall(r"MSGID: (\w+)", whole) == keys
        assert "BODY: red one" in whole and "minOffset=0, maxOffset=2" in whole
        red = mqadmin.run("printMsg", "-t", topic, "-s", "red")
        assert re.findall(r"MSGID: (\w+)", red) == keys[:1]
        assert "NO_NEW_MSG" not in red
        queue = mqadmin.run(
            "printMsgByQueue", "-t", topic, "-a", BROKER, "-i", "1", "-p", "true", "-f", "true"
        )
        assert re.findall(r"MSGID: (\w+)", queue) == keys
        assert sorted(re.findall(r"Tag: (\w+) +Count: (\d+)", queue)) == [("blue", "1"), ("red", "1")]

    def test_send_and_consume(self, mqadmin: Mqadmin, topic: str) -> None:
        first, second = _send(mqadmin, topic, "one"), _send(mqadmin, topic, "two")
        whole = mqadmin.run("consumeMessage", "-t", topic)
        assert re.findall(r"MSGID: (\w+)", whole) == [first, second]
        part = mqadmin.run("consumeMessage", "-t", topic, "-b", BROKER, "-i", "1", "-o", "1", "-c", "1")
        assert re.findall(r"MSGID: (\w+)", part) == [second]

    def test_send_status(self, mqadmin: Mqadmin) -> None:
        output = mqadmin.run("sendMsgStatus", "-b", BROKER, "-s", "100", "-c", "3")
        assert output.count("sendStatus=SEND_OK") == 3
        assert f"topic={BROKER}, brokerName={BROKER}, queueId=0" in output

    def test_trace(self, mqadmin: Mqadmin, client: JavaClient, cluster: Cluster, topic: str) -> None:
        traces = fresh_name("Traces")
        sent = client.run("traced", cluster.namesrv, topic=topic, trace_topic=traces)
        output = mqadmin.run_until("Pub", "queryMsgTraceById", "-i", sent["msg_id"], "-t", traces)
        ((kind, _group, _client, *_times, status),) = _rows(output)
        assert (kind, status) == ("Pub", "success")


class TestGroups:
    def test_create_read_delete(self, mqadmin: Mqadmin, cluster: Cluster) -> None:
        group = fresh_name("G")
        where = ("-b", cluster.broker, "-g", group)
        output = mqadmin.run("updateSubGroup", *where, "-s", "false", "-r", "5", "-q", "2", "-o", "true")
        assert f"create subscription group to {cluster.broker} success" in output
        config = _values(mqadmin.run("getConsumerConfig", "-g", group), "=  ")
        assert config["groupName"] == group
        assert (config["consumeEnable"], config["consumeMessageOrderly"]) == ("false", "true")
        assert (config["retryMaxTimes"], config["retryQueueNums"]) == ("5", "2")
        # Without "-r true" Apache's broker at once makes a default group of the same name again.
        assert "success" in mqadmin.run("deleteSubGroup", *where, "-r", "true")
        assert mqadmin.run("getConsumerConfig", "-g", group).strip() == ""

    def test_delete_takes_the_retry_topic(self, mqadmin: Mqadmin, group: str) -> None:
        assert f"%RETRY%{group}" in mqadmin.run("topicList").split()
        assert "success" in mqadmin.run("deleteSubGroup", "-c", CLUSTER, "-g", group)
        assert f"%RETRY%{group}" not in mqadmin.run("topicList").split()

    def test_config_of_a_group_that_a_client_made(self, mqadmin: Mqadmin, live: Live) -> None:
        config = _values(mqadmin.run("getConsumerConfig", "-g", LIVE_GROUP), "=  ")
        assert (config["consumeEnable"], config["consumeBroadcastEnable"]) == ("true", "true")
        assert (config["retryMaxTimes"], config["retryQueueNums"]) == ("16", "1")

    def test_offsets_by_time_skipped_and_cloned(self, mqadmin: Mqadmin, topic: str, group: str) -> None:
        for body in ("one", "two", "three"):
            _send(mqadmin, topic, body)
        end = {0: 0, 1: 3, 2: 0, 3: 0}
        where = ("-g", group, "-t", topic)
        assert _offsets(mqadmin.run("skipAccumulatedMessage", *where)) == end
        assert _progress(mqadmin, group, topic)[1] == (3, 3)
        assert _offsets(mqadmin.run("resetOffsetByTime", *where, "-s", "0")) == {0: 0, 1: 0, 2: 0, 3: 0}
        assert _progress(mqadmin, group, topic)[1] == (3, 0)
        assert _offsets(mqadmin.run("resetOffsetByTime", *where, "-s", "now")) == end
        assert _progress(mqadmin, group, topic)[1] == (3, 3)

        copy = _offline_group(mqadmin)
        assert "clone group offset success" in mqadmin.run(
            "cloneGroupOffset", "-s", group, "-d", copy, "-t", topic
        )
        assert _progress(mqadmin, copy, topic) == {queue: (offset, offset) for queue, offset in end.items()}

    def test_offset_of_one_queue(self, mqadmin: Mqadmin, cluster: Cluster, topic: str, group: str) -> None:
        for body in ("one", "two"):
            _send(mqadmin, topic, body)
        where = ("-g", group, "-t", topic, "-b", cluster.broker, "-q", "1", "-o", "1", "-s", "0")
        assert "reset consumer offset to 1" in mqadmin.run("resetOffsetByTime", *where)
        assert _progress(mqadmin, group, topic)[1] == (2, 1)


class TestLiveClients:
    def test_consumer_connection(self, mqadmin: Mqadmin, live: Live) -> None:
        output = mqadmin.run("consumerConnection", "-g", LIVE_GROUP)
        rows = _rows(output)
        assert rows[0][0] == live.consumer
        assert rows[0][1].startswith("127.0.0.1:")
        assert rows[0][2:] == ["JAVA", "V5_5_0"]
        assert [LIVE_TOPIC, "*"] in rows and [f"%RETRY%{LIVE_GROUP}", "*"] in rows
        assert "ConsumeType: CONSUME_PASSIVELY" in output
        assert "MessageModel: CLUSTERING" in output
        assert "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET" in output

    def test_connection_of_a_group_offline(self, mqadmin: Mqadmin, group: str) -> None:
        assert "CODE: 206" in mqadmin.fails("consumerConnection", "-g", group)

    def test_producer_connection(self, mqadmin: Mqadmin, live: Live) -> None:
        output = mqadmin.run("producerConnection", "-g", LIVE_PRODUCER, "-t", LIVE_TOPIC)
        ((_number, client, address, language, version),) = _rows(output)
        assert (client, language, version) == (live.producer, "JAVA", "V5_5_0")
        assert address.startswith("127.0.0.1:")
        assert "CODE: 1" in mqadmin.fails("producerConnection", "-g", "nobody", "-t", LIVE_TOPIC)

    def test_consumer_status(self, mqadmin: Mqadmin, live: Live) -> None:
        output = mqadmin.run("consumerStatus", "-g", LIVE_GROUP)
        assert _rows(output)[0][:3] == ["1", live.consumer, "V5_5_0"]
        assert "Same subscription in the same group of consumer" in output
        assert "Rebalance OK" in output

    def test_status_of_one_consumer(self, mqadmin: Mqadmin, live: Live) -> None:
        output = mqadmin.run("consumerStatus", "-g", LIVE_GROUP, "-i", live.consumer)
        status = _values(output, ":")
        assert status["PROP_CLIENT_VERSION"] == "V5_5_0"
        assert status["consumerGroup"] == LIVE_GROUP
        held = {tuple(row[:3]) for row in _rows(output) if row[:2] == [LIVE_TOPIC, BROKER]}
        assert {(LIVE_TOPIC, BROKER, str(queue)) for queue in range(LIVE_QUEUES)} <= held

    def test_progress(self, mqadmin: Mqadmin, live: Live) -> None:
        each = LIVE_COUNT // LIVE_QUEUES
        done = dict.fromkeys(range(LIVE_QUEUES), (each, each))
        assert _progress(mqadmin, LIVE_GROUP, LIVE_TOPIC) == done
        output = mqadmin.run("consumerProgress", "-g", LIVE_GROUP, "-t", LIVE_TOPIC, "-s", "true")
        assert "Consume Diff Total: 0" in output
        assert all(row[5] == "127.0.0.1" for row in _rows(output) if row[0] == LIVE_TOPIC)
        (row,) = (row for row in _rows(mqadmin.run("consumerProgress")) if row[0] == LIVE_GROUP)
        assert row[:5] == [LIVE_GROUP, "1", "V5_5_0", "PUSH", "CLUSTERING"]
        assert (int(row[5]) >= 0, row[6]) == (True, "0")  # messages a second, and how many are left

    def test_broker_consume_stats(self, mqadmin: Mqadmin, cluster: Cluster, live: Live) -> None:
        rows = _rows(mqadmin.run("brokerConsumeStats", "-b", cluster.broker))
        each = str(LIVE_COUNT // LIVE_QUEUES)
        seen = {int(row[3]): row[4:7] for row in rows if row[:3] == [LIVE_TOPIC, LIVE_GROUP, BROKER]}
        assert seen == {queue: [each, each, "0"] for queue in range(LIVE_QUEUES)}

    def test_stats_all(self, mqadmin: Mqadmin, live: Live) -> None:
        (row,) = _rows(mqadmin.run("statsAll", "-t", LIVE_TOPIC))
        assert row[:3] == [LIVE_TOPIC, LIVE_GROUP, "0"]
        assert all(float(number) >= 0 for number in row[3:])

    def test_stats_of_a_topic_without_consumers(self, mqadmin: Mqadmin, topic: str) -> None:
        _send(mqadmin, topic, "one")
        (row,) = _rows(mqadmin.run("statsAll", "-t", topic))
        assert (row[0], row[-1]) == (topic, "NO_CONSUMER")

    def test_message_given_to_a_chosen_consumer(self, mqadmin: Mqadmin, live: Live) -> None:
        where = ("-t", LIVE_TOPIC, "-b", BROKER, "-i", "0", "-o", "0")
        message = _values(mqadmin.run("queryMsgByOffset", *where), ":")
        who = ("-g", LIVE_GROUP, "-d", live.consumer)
        output = mqadmin.run("queryMsgById", "-t", LIVE_TOPIC, "-i", message["OffsetID"], *who)
        assert "consumeResult=CR_SUCCESS" in output

    def test_message_track(self, mqadmin: Mqadmin, live: Live) -> None:
        output = mqadmin.run("queryMsgByOffset", "-t", LIVE_TOPIC, "-b", BROKER, "-i", "0", "-o", "0")
        assert f"MessageTrack [consumerGroup={LIVE_GROUP}, trackType=CONSUMED, exceptionDesc=null]" in output
