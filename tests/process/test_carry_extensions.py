"""A store with extensions of its queues goes from Apache's broker to ours and back, stopped and killed.

A group selects by a property all the while: whoever serves it, it gets what it selects, each message once,
and every message that was stored since it came has its verdict beside the queue.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.golden.capture.broker_cases import now_ms, until
from tests.golden.capture.raw import Wire
from tests.golden.capture.records import split
from tests.peers import apache, roquet
from tests.peers.ports import free_broker_port

pytestmark = [pytest.mark.java, pytest.mark.process]

TOPIC, GROUP, VERSION = "Carried", "carried", 1_700_000_000_000
SETTINGS = {
    **apache.SMALL_STORE,
    "brokerName": "broker-a",
    "brokerClusterName": "DefaultCluster",
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": "1000",
}
EACH = 60
"""Messages of one life; a third of them is red."""


def join(wire: Wire) -> None:
    """Join the group on a connection that stays."""
    chosen = {"topic": TOPIC, "subString": "color = 'red'", "subVersion": VERSION, "expressionType": "SQL92"}
    group = {
        "groupName": GROUP,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [{**chosen, "codeSet": [], "tagsSet": [], "classFilterMode": False}],
        "unitMode": False,
    }
    beat = {"clientID": "127.0.0.1@carried", "consumerDataSet": [group], "producerDataSet": []}
    assert wire.ask(34, {}, json.dumps(beat).encode()).header.code == 0
    until(lambda: wire.ask(38, {"consumerGroup": GROUP}), lambda taken: taken.header.code == 0)


def fill(wire: Wire, first: int) -> None:
    for number in range(first, first + EACH):
        color = "red" if number % 3 == 0 else "blue"
        text = f"UNIQ_KEY\1U{number}\2TAGS\1{color}\2color\1{color}\2"
        fields = {"a": "g", "b": TOPIC, "c": "TBW102", "d": 1, "e": 0, "f": 0, "g": now_ms(), "h": 0}
        sent = wire.ask(310, fields | {"i": text, "j": 0, "k": False, "m": False}, b"%d" % number)
        assert sent.header.code == 0, sent.header


def check(wire: Wire, count: int, noted_from: int) -> None:
    """Pull all that the group wants, and look at the queue as an administrator does.

    Messages from `noted_from` on must have their verdict; a broker that was killed may have forgotten since
    when it knows the group, and then looks at the others themselves.
    """
    queue = {"topic": TOPIC, "queueId": 0}
    until(lambda: wire.ask(30, queue), lambda taken: taken.header.fields["offset"] == str(count))
    found: list[int] = []
    at = 0
    while at < count:
        ask = {"consumerGroup": GROUP, **queue, "queueOffset": at, "maxMsgNums": 32, "sysFlag": 0}
        ask |= {"commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": VERSION}
        taken = wire.ask(11, {**ask, "expressionType": "SQL92"})
        assert taken.header.code in (0, 20), taken.header
        found += [one["queue_offset"] for one in split(taken.body)] if taken.header.code == 0 else []
        at = int(taken.header.fields["nextBeginOffset"])
    assert found == list(range(0, count, 3))
    shown = json.loads(wire.ask(321, {**queue, "index": 0, "count": count, "consumerGroup": GROUP}).body)
    noted = shown["queueData"][noted_from:]
    assert [line["eval"] for line in noted] == [number % 3 == 0 for number in range(noted_from, count)]
    assert all("bitMap" in line for line in noted)
    assert all(line["eval"] for line in shown["queueData"][::3])


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_extensions_move_from_apache_to_roquet_and_back(tmp_path: Path, is_clean: bool) -> None:
    names = apache.start_namesrv(tmp_path / "namesrv")
    try:
        for life in range(3):
            port = free_broker_port()
            node: apache.ApacheNode | roquet.RoquetNode
            if life % 2 == 0:
                home, store = tmp_path / "apache", tmp_path / "store"
                node = apache.start_broker(home, names.address, port, store=store, settings=SETTINGS)
            else:
                node = roquet.start_broker(tmp_path / "store", names.address, port, SETTINGS)
            try:
                _live(f"127.0.0.1:{port}", life, is_clean)
                if is_clean and life < 2:
                    node.stop()
            finally:
                node.kill()
        last = roquet.start_broker(tmp_path / "store", names.address, settings=SETTINGS)
        try:
            wire = Wire(last.broker)
            join(wire)
            check(wire, 3 * EACH, 2 * EACH if is_clean else 3 * EACH)
            wire.close()
            last.stop()
        finally:
            last.kill()
    finally:
        names.kill()


def _live(address: str, life: int, is_clean: bool) -> None:
    wire = Wire(address)
    join(wire)
    if life:
        check(wire, life * EACH, 0 if is_clean else life * EACH)
    else:
        until(lambda: wire.ask(17, _topic()), lambda taken: taken.header.code == 0)
    fill(wire, life * EACH)
    check(wire, (life + 1) * EACH, 0 if is_clean else life * EACH)
    wire.close()


def _topic() -> dict[str, object]:
    topic = {"topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}
    return topic | {"topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}
