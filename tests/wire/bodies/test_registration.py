"""Registrations in all their forms, the deflated one of a 5.5.0 broker included, and damaged ones."""

from __future__ import annotations

import contextlib
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.model.topic import DataVersion, Topic
from roquet.wire.bodies import registration
from roquet.wire.bodies.registration import INFLATED_BYTES_MAX, BodyError, Registration

VERSION = DataVersion(8, 0, 1_700_000_000_000)
TOPIC = Topic(topic_name="obsT2", read_queue_nums=2, write_queue_nums=2, attributes={"message.type": "FIFO"})
SYSTEM = Topic(topic_name="TBW102", read_queue_nums=8, write_queue_nums=8, perm=7)
SENT = Registration(VERSION, {"obsT2": TOPIC, "TBW102": SYSTEM})


def deflated(*pieces: bytes | int) -> bytes:
    """Lay pieces out as a broker does: numbers as they are, bytes behind their length."""
    laid = (
        piece.to_bytes(4, "big", signed=True)
        if isinstance(piece, int)
        else len(piece).to_bytes(4, "big") + piece
        for piece in pieces
    )
    return zlib.compress(b"".join(laid), 9)


BY_A_BROKER = deflated(
    b'{"counter":8,"stateVersion":0,"timestamp":1700000000000}',
    2,
    b'obsT2 2 2 6 SINGLE_TAG {"message.type":"FIFO"}',
    b"TBW102 8 8 7 SINGLE_TAG {}",
    b"[]",
    0,
)


def test_the_plain_form_has_the_members_of_a_5_5_0_broker() -> None:
    read = json.loads(registration.encode(SENT))
    assert list(read) == ["filterServerList", "topicConfigSerializeWrapper"]
    assert list(read["topicConfigSerializeWrapper"]) == [
        "dataVersion",
        "mappingDataVersion",
        "topicConfigTable",
        "topicQueueMappingDetailMap",
        "topicQueueMappingInfoMap",
    ]
    assert read["topicConfigSerializeWrapper"]["topicConfigTable"]["TBW102"] == {
        "attributes": {},
        "order": False,
        "perm": 7,
        "readQueueNums": 8,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "TBW102",
        "topicSysFlag": 0,
        "writeQueueNums": 8,
    }


def test_the_plain_form_reads_back() -> None:
    assert registration.decode(registration.encode(SENT), compressed=False, version=513) == SENT


@pytest.mark.parametrize("compressed", [True, False])
def test_a_deflated_body_is_known_by_its_first_byte(compressed: bool) -> None:
    assert BY_A_BROKER[0] == 0x78
    assert registration.decode(BY_A_BROKER, compressed=compressed, version=513) == SENT


def test_a_deflated_body_before_5_0_0_has_no_mappings() -> None:
    body = deflated(b"{}", 1, b"t 4 4 6 SINGLE_TAG", b'["127.0.0.1:9"]')
    read = registration.decode(body, compressed=True, version=401)
    assert read.filter_servers == ("127.0.0.1:9",)
    assert read.topics["t"].read_queue_nums == 4
    with pytest.raises(BodyError):
        registration.decode(body, compressed=True, version=413)


def test_mappings_of_static_topics_are_kept() -> None:
    mapping = b'{"bname":"broker-a","currIdMap":{0:3},"topic":"t"}'
    read = registration.decode(deflated(b"{}", 0, b"[]", 1, mapping), compressed=True, version=513)
    assert read.mappings == {"t": {"bname": "broker-a", "currIdMap": {0: 3}, "topic": "t"}}


def test_raw_integer_keys_take_the_tolerant_way() -> None:
    body = (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":"3"},'
        b'"topicConfigTable":{"t":{"topicName":"t","perm":"6"}},'
        b'"topicQueueMappingInfoMap":{"t":{"bname":"b","currIdMap":{0:0}}}}}'
    )
    read = registration.decode(body, compressed=False, version=513)
    assert read.version.counter == 3
    assert read.topics["t"].perm == 6
    assert read.mappings["t"]["currIdMap"] == {0: 0}


def test_brokers_before_3_0_11_send_the_table_alone() -> None:
    body = b'{"dataVersion":{"counter":2,"timestamp":5},"topicConfigTable":{"t":{"topicName":"t"}}}'
    read = registration.decode(body, compressed=False, version=36)
    assert (read.version, list(read.topics)) == (DataVersion(2, 0, 5), ["t"])


def test_no_body_is_an_empty_table() -> None:
    assert registration.decode(b"", compressed=False, version=513) == Registration()


def test_a_decompression_bomb_is_refused() -> None:
    bomb = zlib.compress(bytes(INFLATED_BYTES_MAX + 1), 9)
    assert len(bomb) < 100_000
    with pytest.raises(BodyError, match="grows beyond"):
        registration.decode(bomb, compressed=True, version=513)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"x\x9c",
        b'{"topicConfigSerializeWrapper":7}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{"topicName":"b"}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":{"topicName":"a","perm":"x"}}}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":1e400}}}',
        b"[" * 100_000,
        b"{" + b"1:[]," * 500_000,
        deflated(b"{}", -1),
        deflated(b"{}", 2**31 - 1),
        deflated(b"{}", 1, b"name only"),
        deflated(b"{}", 1, b"t a b c d"),
        deflated(b"{}", 0, b'{"a":1}', 0),
        deflated(b"{}", 0, b"[]", 1, b"[]"),
    ],
)
def test_bad_bodies_are_refused_with_a_reason(body: bytes) -> None:
    with pytest.raises(BodyError) as caught:
        registration.decode(body, compressed=False, version=513)
    assert str(caught.value)


@given(st.binary(max_size=200), st.booleans(), st.sampled_from([0, 36, 317, 513]))
def test_noise_is_refused_or_read_but_never_an_accident(body: bytes, compressed: bool, version: int) -> None:
    with contextlib.suppress(BodyError):
        registration.decode(body, compressed=compressed, version=version)


@given(st.integers(0, len(zlib.decompress(BY_A_BROKER)) - 1), st.integers(0, 255))
def test_one_wrong_byte_inside_a_deflated_body_is_no_accident(position: int, byte: int) -> None:
    damaged = bytearray(zlib.decompress(BY_A_BROKER))
    damaged[position] = byte
    with contextlib.suppress(BodyError):
        registration.decode(zlib.compress(bytes(damaged)), compressed=True, version=513)


@given(st.integers(0, 300), st.binary(max_size=3))
def test_a_damaged_plain_body_is_no_accident(position: int, bytes_put: bytes) -> None:
    body = registration.encode(SENT)
    with contextlib.suppress(BodyError):
        registration.decode(body[:position] + bytes_put + body[position + 1 :], compressed=False, version=513)


def test_crc_is_31_bits() -> None:
    assert registration.crc32(b"123456789") == 0xCBF43926 & 0x7FFFFFFF


def test_values_and_versions_read_back() -> None:
    assert registration.encode_values({"t": "broker-a:4"}) == b'{"table":{"t":"broker-a:4"}}'
    assert registration.decode_values(b'{"table":{"t":"broker-a:4"}}') == {"t": "broker-a:4"}
    assert registration.decode_values(b"{}") == {}
    assert registration.decode_version(registration.encode_version(VERSION)) == VERSION
    for damaged in (b"[", b'{"table":{"t":5}}', b'{"table":[]x'):
        with pytest.raises(BodyError):
            registration.decode_values(damaged)
