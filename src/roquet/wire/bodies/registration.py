"""The body of a registration (103): which topics a broker serves, and how new that table is.

Place in the flow: written by `broker.registration`, read by `names.handlers`. Three forms exist:

    plain        {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":…,"topicConfigTable":…}}
    before 3.0.11   the inner wrapper alone
    deflated     int32 n · data version JSON │ int32 topics │ each int32 n · text │ int32 n · filter servers
                 │ (5.0.0 on) int32 mappings │ each int32 n · JSON      text: `T 4 4 6 SINGLE_TAG {"k":"v"}`

A 5.5.0 broker deflates and says that it did not, so the first byte (0x78) is believed and not the header.
Reference: RegisterBrokerBody and TopicConfig of Apache 5.5.0. Knows no tables and checks no names.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from roquet.model.topic import DataVersion, Topic
from roquet.wire.bodies import loose_json
from roquet.wire.codes import VERSION_MAPPING_IN_REGISTRATION

VERSION_BODY_HAS_FILTER_SERVERS: Final = 37
"""3.0.11: older brokers send the topic table alone."""

INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a deflated body may grow to: four full frames, about 400,000 topics."""

LOOSE_BYTES_MAX: Final = 2 * 1024 * 1024
"""The tolerant reader takes seconds for more, and nobody else is served meanwhile. Strict JSON is quick."""

ZLIB_FIRST_BYTE: Final = 0x78


class BodyError(ValueError):
    """The body cannot be read as a registration; the text says why."""


class Registration(NamedTuple):
    """What a broker says of itself; `topics` may be a part of its table."""

    version: DataVersion = DataVersion()
    topics: Mapping[str, Topic] = {}
    filter_servers: tuple[str, ...] = ()
    mappings: Mapping[str, Mapping[Any, Any]] = {}


class _Topics(msgspec.Struct, rename="camel"):
    data_version: DataVersion | None = None
    topic_config_table: dict[str, Topic] | None = None
    topic_queue_mapping_info_map: dict[str, dict[Any, Any]] | None = None


class _Body(msgspec.Struct, rename="camel"):
    filter_server_list: list[str] | None = None
    topic_config_serialize_wrapper: _Topics | None = None


Shape = TypeVar("Shape", _Body, _Topics, DataVersion)

_encode = msgspec.json.Encoder().encode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {
    shape: msgspec.json.Decoder(shape) for shape in (_Body, _Topics, DataVersion)
}


def crc32(body: bytes) -> int:
    """Return the checksum that a registration's header carries: 31 bits over the body as sent."""
    return zlib.crc32(body) & 0x7FFFFFFF


def decode(body: bytes, *, compressed: bool, version: int) -> Registration:
    """Return the registration of a body sent by a broker of this release; raises BodyError."""
    if not body:
        return Registration()
    if version < VERSION_BODY_HAS_FILTER_SERVERS:
        return _registration((), _read(body, _Topics))
    if compressed or body[0] == ZLIB_FIRST_BYTE:
        return _decode_deflated(body, has_mappings=version >= VERSION_MAPPING_IN_REGISTRATION)
    read = _read(body, _Body)
    return _registration(
        tuple(read.filter_server_list or ()), read.topic_config_serialize_wrapper or _Topics()
    )


def encode(registration: Registration) -> bytes:
    """Return the plain form, with the members that a 5.5.0 broker sends."""
    return _encode(
        {
            "filterServerList": registration.filter_servers,
            "topicConfigSerializeWrapper": {
                "dataVersion": registration.version,
                "mappingDataVersion": registration.version,
                "topicConfigTable": registration.topics,
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            },
        }
    )


def decode_version(body: bytes) -> DataVersion:
    """Return the data version that is the body of 322; raises BodyError."""
    return _read(body, DataVersion)


def encode_version(version: DataVersion) -> bytes:
    return _encode(version)


def decode_values(body: bytes) -> dict[str, str]:
    """Return the pairs of a KV table `{"table":{…}}`; raises BodyError."""
    try:
        read = loose_json.loads(body)
        table = read.get("table") if isinstance(read, dict) else None
        return msgspec.convert(table or {}, dict[str, str])
    except ValueError as error:
        raise BodyError(f"KV table: {error}") from None


def encode_values(values: Mapping[str, str]) -> bytes:
    return _encode({"table": values})


def _read(body: bytes, shape: type[Shape]) -> Shape:
    """Read strict JSON at full speed, and what Java's parser forgives besides in a second try."""
    try:
        read: Shape = _decoders[shape].decode(body)
        return read
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if len(body) > LOOSE_BYTES_MAX:
            raise BodyError(f"{len(body)} bytes that are not strict JSON: {error}") from None
    try:
        return msgspec.convert(loose_json.loads(body), shape, strict=False)
    except (ValueError, RecursionError) as error:
        raise BodyError(f"{error}") from None


def _registration(filter_servers: tuple[str, ...], read: _Topics) -> Registration:
    topics = read.topic_config_table or {}
    for name, topic in topics.items():
        if topic.topic_name != name:
            raise BodyError(f"topic {topic.topic_name[:80]!r} is filed under {name[:80]!r}")
    return Registration(
        read.data_version or DataVersion(), topics, filter_servers, read.topic_queue_mapping_info_map or {}
    )


def _decode_deflated(body: bytes, *, has_mappings: bool) -> Registration:
    pieces = _Pieces(_inflate(body))
    version = _read(pieces.next_bytes(), DataVersion)
    topics: dict[str, Topic] = {}
    for _ in range(pieces.next_count()):
        topic = _topic_of_text(pieces.next_bytes())
        topics[topic.topic_name] = topic
    mappings: dict[str, Mapping[Any, Any]] = {}
    try:
        filter_servers = msgspec.convert(loose_json.loads(pieces.next_bytes()) or (), tuple[str, ...])
        for _ in range(pieces.next_count() if has_mappings else 0):
            mapping = msgspec.convert(loose_json.loads(pieces.next_bytes()), dict[Any, Any])
            mappings[str(mapping.get("topic", ""))] = mapping
    except BodyError:
        raise
    except (ValueError, RecursionError) as error:
        raise BodyError(f"{error}") from None
    return Registration(version, topics, filter_servers, mappings)


def _inflate(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(body, INFLATED_BYTES_MAX)
    except zlib.error as error:
        raise BodyError(f"deflated body: {error}") from None
    if inflater.unconsumed_tail:
        raise BodyError(f"deflated body grows beyond {INFLATED_BYTES_MAX} bytes")
    return inflated


def _topic_of_text(piece: bytes) -> Topic:
    """Read `name readQueues writeQueues perm filterType [attributes]`; order and flags are not in it."""
    try:
        name, read_queues, write_queues, perm, filter_type, *attributes = piece.decode().split(" ", 5)
        texts = msgspec.convert(loose_json.loads((attributes or ["{}"])[0].encode()), dict[str, str])
        return Topic(
            attributes=texts,
            perm=int(perm),
            read_queue_nums=int(read_queues),
            topic_filter_type=filter_type,
            topic_name=name,
            write_queue_nums=int(write_queues),
        )
    except (ValueError, RecursionError) as error:
        raise BodyError(f"topic {piece[:80]!r}: {error}") from None


class _Pieces:
    """Reads counts and length-prefixed pieces off a buffer, never beyond its end."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def next_count(self) -> int:
        end = self._position + 4
        count = int.from_bytes(self._data[self._position : end], "big", signed=True)
        if end > len(self._data) or not 0 <= count <= len(self._data):
            raise BodyError(f"a count at {self._position} of {len(self._data)} bytes is cut short or wrong")
        self._position = end
        return count

    def next_bytes(self) -> bytes:
        size = self.next_count()
        start, end = self._position, self._position + size
        if end > len(self._data):
            raise BodyError(f"{size} bytes at {start} are more than the body has left")
        self._position = end
        return self._data[start:end]
