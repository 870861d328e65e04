"""Well-formed frames with wrong contents, for every request of the table: each is answered, nothing breaks.

From each row come requests without fields, without each one of them, with texts where numbers belong, with
numbers that are too wide, with illegal names, and with bodies that are no bodies. All go over one connection
a row, in both header encodings. To each must come an answer; which one, the handlers' own tests say. At the
end nothing that has an illegal name may have been kept, in memory or on disk.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roquet.model import names
from roquet.wire import requests
from roquet.wire.bodies import loose_json
from roquet.wire.codes import FLAG_ONE_WAY, Code
from roquet.wire.frame import BINARY, JSON, Frame, join
from roquet.wire.requests.groups import UpdateGroup
from roquet.wire.requests.offsets import UpdateOffset
from roquet.wire.requests.settings import GetSettings
from roquet.wire.requests.topics import UpdateTopic
from roquet.wire.row import TABLE, Field, Row, row_of
from tests.peers import roquet
from tests.process.rude import Rude, Watch
from tests.process.test_bad_input import serves

pytestmark = pytest.mark.process

ILLEGAL_NAMES: tuple[str, ...] = (
    "../x",
    "..",
    "/etc/passwd",
    "x" * 300,
    "a\0b",
    "",
    " ",
    "naïve☃",
    "a b",
    "a\nb",
    "a.b",
)
ILLEGAL_NAMES += ("%RETRY%/../x", "%RETRY%" + "x" * 300, "@", "a@b", "[" * 9_000)
WRONG_NUMBERS: tuple[str, ...] = (
    "",
    "x",
    "1.5",
    "0x10",
    "1_000",
    "٣",
    "-1",
    "-9223372036854775808",
    "9223372036854775807",
)
WRONG_NUMBERS += ("2147483647", "-2147483649", "99999999999999999999999", "9" * 5_000, "true", "null")
WRONG_FLAGS = ("", "maybe", "1", "TRUE ", "\0")
WRONG_BODIES = (
    *(
        b"",
        b"\0",
        b"\xff\xfe\xfd",
        b"{",
        b"}",
        b"{}",
        b"[]",
        b"null",
        b"true",
        b"0",
        b'""',
        b"[null]",
        b"[{}]",
    ),
    *(
        b'{"topic":',
        b'{"groupName":null}',
        b'{"groupName":7}',
        b'{"topicConfigList":[null]}',
        b"=\n=",
        b"a=b",
    ),
    *(b"brokerPermission=abc\n", b"\\u00", b"[" * 10_000, b'{"a":' * 5_000, bytes(range(256)) * 40),
    *(
        b'{"clientID":"c","consumerDataSet":[{}],"producerDataSet":[{}]}',
        b'{"clientID":"c","consumerDataSet":{}}',
    ),
    *(b'{"clientID":{},"consumerDataSet":[null]}', b'{"consumerGroup":"g","clientId":"c","mqSet":[{}]}'),
    *(b'{"consumerGroup":"g","clientId":"c","mqSet":[null]}', b'{"topicConfigSerializeWrapper":7}'),
)
NOT_ANSWERED = ("END_TRANSACTION",)
"""Clients send it one way; Apache's broker too is silent when it is neither commit nor rollback."""
ONE_LINE_EACH = ("REGISTER_BROKER",)
"""A refused registration is a broker that nobody will find: each is worth a line."""
SAMPLES = {"text": "sample", "int32": "0", "int64": "0", "flag": "false"}


def sample(field: Field) -> str:
    return "127.0.0.1:1" if "addr" in field.attribute else SAMPLES[field.kind]


def wrong_values(field: Field) -> tuple[str, ...]:
    if field.kind == "flag":
        return WRONG_FLAGS
    return ILLEGAL_NAMES if field.kind == "text" else WRONG_NUMBERS


def wrong_requests(row: Row) -> Iterator[Frame]:
    """Return the bad requests of one row."""
    fields = row.header.WIRE
    good = {field.wire: sample(field) for field in fields}
    yield Frame(row.code)
    yield Frame(row.code, ext={"unknown": "field"}, body=b"x")
    for field in fields:
        yield Frame(row.code, ext={name: value for name, value in good.items() if name != field.wire})
        for value in wrong_values(field):
            yield Frame(row.code, ext={**good, field.wire: value}, body=b"x")
    for name in ILLEGAL_NAMES:
        yield Frame(
            row.code, ext={f.wire: name if f.kind == "text" else sample(f) for f in fields}, body=b"x"
        )
        yield Frame(row.code, ext=good, body=body_with(name))
    for body in WRONG_BODIES:
        yield Frame(row.code, ext=good, body=body)


def body_with(name: str) -> bytes:
    """Return a body that every kind of JSON body finds a bad name in."""
    queue: dict[str, object] = {"topic": name, "brokerName": name, "queueId": 0}
    subscription = {"topic": name, "subString": name, "tagsSet": [name], "codeSet": [0], "subVersion": 1}
    consumer: dict[str, object] = {
        "groupName": name,
        "subscriptionDataSet": [subscription],
        "messageModel": "CLUSTERING",
    }
    consumer |= {"consumeType": "CONSUME_PASSIVELY", "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET"}
    body: dict[str, object] = {
        "groupName": name,
        "topicName": name,
        "topic": name,
        "clientId": name,
        "clientID": name,
    }
    body |= {"consumerGroup": name, "mqSet": [queue], "consumerDataSet": [consumer], "group": name}
    body |= {"producerDataSet": [{"groupName": name}], "topicConfigList": [{"topicName": name}]}
    body |= {"groupConfigList": [{"groupName": name}], "subscriptionData": subscription}
    return json.dumps(body).encode()


def rows_to(program: str) -> list[str]:
    assert requests is not None  # its import fills the table
    return [row.name for row in TABLE.values() if program in row.to]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fields") / "outer" / "store"


@pytest.fixture(scope="module")
def node(store: Path) -> Iterator[roquet.RoquetNode]:
    running = roquet.start_up(store)
    try:
        yield running
        have_samples(running.broker)  # so that no table is empty
        asyncio.run(serves(running.namesrv))
        running.stop()
        check_names(store)
    finally:
        running.kill()


def kept(file: Path) -> Any:
    return loose_json.loads(file.read_bytes())


def check_names(store: Path) -> None:
    """See that only legal names were kept, in the tables and as folders."""
    topics, groups, offsets = (
        kept(store / "config" / file)[member]
        for file, member in (
            ("topics.json", "topicConfigTable"),
            ("subscriptionGroup.json", "subscriptionGroupTable"),
            ("consumerOffset.json", "offsetTable"),
        )
    )
    assert topics and groups and offsets
    assert not [name for name in topics if names.topic_fault(name)]
    assert not [name for name in groups if names.group_fault(name)]
    for key in offsets:
        topic, _, group = key.partition("@")
        assert not names.topic_fault(topic) and not names.group_fault(group), key
    folders = [path.name for path in (store / "consumequeue").iterdir()]
    assert folders and not [name for name in folders if names.topic_fault(name)]
    assert [path.name for path in store.parent.iterdir() if path.suffix != ".out"] == ["store"]


@pytest.mark.parametrize("encoding", [JSON, BINARY], ids=["json", "binary"])
@pytest.mark.parametrize(
    ("program", "name"), [(program, name) for program in ("broker", "names") for name in rows_to(program)]
)
def test_every_wrong_request_is_answered(
    node: roquet.RoquetNode, program: str, name: str, encoding: int
) -> None:
    (row,) = [row for row in TABLE.values() if row.name == name]
    address = node.broker if program == "broker" else node.namesrv
    frames = [frame._replace(encoding=encoding) for frame in wrong_requests(row)]
    have_samples(node.broker)
    lines_max = len(frames) if name in ONE_LINE_EACH else 1
    with Watch(node.process).lines(lines_max), Rude(address) as peer:
        if name in NOT_ANSWERED:
            peer.send(b"".join(join(frame._replace(flag=FLAG_ONE_WAY)) for frame in frames))
            frames = [Frame(row_of(GetSettings).code)]  # the link has survived them when this is answered
        assert len(peer.ask(frames)) == len(frames)
    asyncio.run(serves(node.namesrv))


def have_samples(broker: str) -> None:
    """Make the topic, the group and the offset that the sample values name, so that requests get further."""
    frames = [
        Frame(row_of(UpdateTopic).code, ext=UpdateTopic("sample", 4, 4, 6).encode()),
        Frame(row_of(UpdateGroup).code, body=b'{"groupName":"sample"}'),
        Frame(row_of(UpdateOffset).code, ext=UpdateOffset("sample", "sample", 0, 0).encode()),
    ]
    with Rude(broker) as peer:
        assert [answer.code for answer in peer.ask(frames)] == [Code.SUCCESS] * 3


@pytest.mark.parametrize("name", ILLEGAL_NAMES)
def test_no_topic_or_group_of_an_illegal_name_can_be_made(node: roquet.RoquetNode, name: str) -> None:
    topic = UpdateTopic(name, 4, 4, 6)
    send = {"a": "p", "b": name, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    group = json.dumps({"groupName": name}).encode()
    attempts = [
        Frame(row_of(UpdateTopic).code, ext=topic.encode()),
        Frame(310, ext=send, body=b"x"),
        Frame(320, ext={**send, "m": "true"}, body=b"x"),
        Frame(200, body=group),
    ]
    with Watch(node.process).lines(at_most=0), Rude(node.broker) as peer:
        for answer in peer.ask(attempts):
            assert answer.code != Code.SUCCESS
