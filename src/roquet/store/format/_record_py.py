"""The record codec in plain Python: the specification of the compiled one.

Functions of bytes and ints, chosen by `store.format.record`, which has the drawing. `encode` serves
every append, `scan` reads the log again after a restart, `decode` opens one record. Reference:
Apache's MessageExtEncoder, CommitLog.checkMessageAndReturnSize and MessageDecoder, 5.5.0.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from functools import reduce
from operator import or_

from roquet.model.message import Draft, Entry, Host, SysFlag, java_hash
from roquet.store.format._entries_py import key_rows
from roquet.store.format._record_values import (
    BLANK_SIZE_BYTES_MIN,
    CRC_PROPERTY_SIZE_BYTES,
    DELAY_TOPIC,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_BYTES_MIN,
    TAG_KEY,
    V1_TOPIC_CHARS_MAX,
    Part,
    Record,
    Scan,
    Stop,
    Survey,
)
from roquet.store.format.queue_entry import pack as pack_queue_entry

_HEAD_V4 = struct.Struct(">iIIiiqqiq4siq4siiqi")  # all of the fixed part when both hosts are IPv4
_HEAD_TO_BORN = struct.Struct(
    ">iIIiiqqiq"
)  # total, magic, crc, queue, flag, queue and log offset, flags, born
_HEAD_TAIL = struct.Struct(">iqi")  # reconsume times, prepared log offset, body length
_SIZE_MAGIC = struct.Struct(">iI")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_SHORT = struct.Struct(">h")
_USHORT = struct.Struct(">H")

_BORN_V6 = int(SysFlag.BORN_HOST_V6)
_STORE_V6 = int(SysFlag.STORE_HOST_V6)
_MAGIC_V2_BYTES = MAGIC_V2.to_bytes(4, "big")
_CRC_NAME = b"__CRC32#\x01"
_PREPARED = int(SysFlag.TRANSACTION_PREPARED)


def encode(draft: Draft, queue_offset: int, log_offset: int, store_ms: int, store_host: Host) -> bytes:
    """Return the bytes of the record that lies at `log_offset`."""
    topic, body, properties, born_host = draft.topic, draft.body, draft.properties, draft.born_host
    name = topic.encode()
    sys_flag = draft.sys_flag & ~(_BORN_V6 | _STORE_V6)
    if len(topic) > V1_TOPIC_CHARS_MAX:
        magic, topic_size = MAGIC_V2, _USHORT.pack(len(name))
    else:
        magic, topic_size = MAGIC_V1, bytes((len(name),))
    crc = zlib.crc32(body) & 0x7FFFFFFF if body else 0
    rest = len(body) + len(topic_size) + len(name) + 2 + len(properties)
    if len(born_host.ip) == 4 and len(store_host.ip) == 4:
        head = _HEAD_V4.pack(
            88 + rest, magic, crc, draft.queue_id, draft.flag, queue_offset, log_offset,
            sys_flag, draft.born_ms, born_host.ip, born_host.port, store_ms, store_host.ip, store_host.port,
            draft.reconsume_times, draft.prepared_log_offset, len(body),
        )  # fmt: skip
    else:
        sys_flag |= (_BORN_V6 if born_host.is_v6 else 0) | (_STORE_V6 if store_host.is_v6 else 0)
        size = 80 + len(born_host.ip) + len(store_host.ip) + rest
        head = b"".join((
            _HEAD_TO_BORN.pack(
                size, magic, crc, draft.queue_id, draft.flag, queue_offset, log_offset, sys_flag,
                draft.born_ms,
            ),
            born_host.ip, _INT.pack(born_host.port), _LONG.pack(store_ms),
            store_host.ip, _INT.pack(store_host.port),
            _HEAD_TAIL.pack(draft.reconsume_times, draft.prepared_log_offset, len(body)),
        ))  # fmt: skip
    return b"".join((head, body, topic_size, name, _SHORT.pack(len(properties)), properties))


def encode_with_crc(
    draft: Draft, queue_offset: int, log_offset: int, store_ms: int, store_host: Host
) -> bytes:
    """Return the record with a checksum of all of it as its last property.

    The ten digits of the property stand in reverse order, padded with zeros at the end.
    """
    kept = [pair for pair in draft.properties.split(b"\x02") if pair and not pair.startswith(_CRC_NAME)]
    properties = b"".join(pair + b"\x02" for pair in kept) + bytes(CRC_PROPERTY_SIZE_BYTES)
    record = encode(draft._replace(properties=properties), queue_offset, log_offset, store_ms, store_host)
    covered = record[:-CRC_PROPERTY_SIZE_BYTES]
    digits = str(zlib.crc32(covered) & 0x7FFFFFFF)[::-1].ljust(10, "0")
    return covered + _CRC_NAME + digits.encode() + b"\x02"


def decode(data: bytes | memoryview, position: int = 0) -> Record:
    """Return the record at `position`, whose bytes must have passed `scan`."""
    view = memoryview(data)
    size, magic, crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms = _HEAD_TO_BORN.unpack_from(
        view, position
    )
    at = position + 48
    born_host, at = _host(view, at, bool(sys_flag & _BORN_V6))
    (store_ms,) = _LONG.unpack_from(view, at)
    store_host, at = _host(view, at + 8, bool(sys_flag & _STORE_V6))
    reconsume_times, prepared_log_offset, body_size = _HEAD_TAIL.unpack_from(view, at)
    at += 16
    body = bytes(view[at : at + body_size])
    at += body_size
    topic, at = _topic(view, at, magic)
    (properties_size,) = _SHORT.unpack_from(view, at)
    properties = bytes(view[at + 2 : at + 2 + properties_size])
    return Record(
        size, crc, queue_id, flag, queue_offset, log_offset, sys_flag, born_ms, born_host, store_ms,
        store_host, reconsume_times, prepared_log_offset, body, str(topic, "utf-8", "replace"), properties,
    )  # fmt: skip


def _host(view: memoryview, at: int, is_v6: bool) -> tuple[Host, int]:
    size = 16 if is_v6 else 4
    return Host(bytes(view[at : at + size]), _INT.unpack_from(view, at + size)[0]), at + size + 4


def _topic(view: memoryview, at: int, magic: int) -> tuple[bytes, int]:
    if magic == MAGIC_V2:
        at, size = at + 2, _USHORT.unpack_from(view, at)[0]
    else:
        at, size = at + 1, view[at]
    return bytes(view[at : at + size]), at + size


def store_ms_of(head: bytes | memoryview) -> int:
    """Return the store time of the record that begins `head` (at least 76 bytes of it)."""
    position = 68 if head[39] & _BORN_V6 else 56
    store_ms: int = _LONG.unpack_from(head, position)[0]
    return store_ms


def properties_of(record: bytes | memoryview) -> bytes:
    """Return the properties of a whole record; none when its lengths are not those of a record."""
    sys_flag = record[39]
    at = 84 + (12 if sys_flag & _BORN_V6 else 0) + (12 if sys_flag & _STORE_V6 else 0)
    at += 4 + int.from_bytes(record[at : at + 4], "big")
    topic_field = 2 if record[4:8] == _MAGIC_V2_BYTES else 1
    at += topic_field + int.from_bytes(record[at : at + topic_field], "big")
    return bytes(record[at + 2 : at + 2 + int.from_bytes(record[at : at + 2], "big")])


def scan(
    data: bytes, log_offset: int, file_end: int, check_crc: bool, delays_ms: Sequence[int], entries_max: int
) -> Scan:
    """Read records one behind the other, `data` lying at `log_offset` of a file that ends at `file_end`.

    Ends at the first place that is no whole record, and says why; `entries_max` ends it earlier.
    """
    entries: list[Entry] = []
    view = memoryview(data)
    topics: dict[bytes, str] = {}
    position = 0
    while len(entries) < entries_max:
        at = log_offset + position
        if len(data) - position < BLANK_SIZE_BYTES_MIN:
            return Scan(entries, at, Stop.FILE_END if at == file_end else Stop.MORE, 0, "")
        size, magic = _SIZE_MAGIC.unpack_from(data, position)
        if magic == MAGIC_BLANK:
            return Scan(entries, at, Stop.FILE_END, 0, "")
        if not size and not magic:
            return Scan(entries, at, Stop.ZEROS, 0, "")
        if magic not in (MAGIC_V1, MAGIC_V2):
            return Scan(entries, at, Stop.BROKEN, 0, f"no record begins with {magic:08x}")
        if size < RECORD_SIZE_BYTES_MIN or at + size > file_end:
            return Scan(entries, at, Stop.BROKEN, 0, f"a record of {size} bytes cannot be")
        if position + size > len(data):
            return Scan(entries, at, Stop.MORE, size, "")
        found = _check(view[position : position + size], magic, at, check_crc, delays_ms, topics)
        if isinstance(found, str):
            return Scan(entries, at, Stop.BROKEN, size, found)
        entries.append(found)
        position += size
    return Scan(entries, log_offset + position, Stop.MORE, 0, "")


def _check(
    record: memoryview,
    magic: int,
    log_offset: int,
    check_crc: bool,
    delays_ms: Sequence[int],
    topics: dict[bytes, str],
) -> Entry | str:
    """Return the entry of one record, or what is wrong with its bytes."""
    size, _, crc, queue_id, _, queue_offset, own_offset, sys_flag, _ = _HEAD_TO_BORN.unpack_from(record)
    if own_offset != log_offset:
        return f"the record says that it lies at {own_offset}"
    store_at = 68 if sys_flag & _BORN_V6 else 56
    at = store_at + (28 if sys_flag & _STORE_V6 else 16)
    topic_field = 2 if magic == MAGIC_V2 else 1
    if at + 16 + topic_field + 2 > size:
        return "the record is shorter than its fixed fields"
    _, prepared_log_offset, body_size = _HEAD_TAIL.unpack_from(record, at)
    body_at = at + 16
    topic_at = body_at + body_size
    if body_size < 0 or topic_at + topic_field + 2 > size:
        return f"a body of {body_size} bytes does not fit the record"
    topic_size = _USHORT.unpack_from(record, topic_at)[0] if topic_field == 2 else record[topic_at]
    properties_at = topic_at + topic_field + topic_size + 2
    if properties_at > size:
        return f"a topic of {topic_size} bytes does not fit the record"
    (properties_size,) = _SHORT.unpack_from(record, properties_at - 2)
    if properties_size < 0 or properties_at + properties_size != size:
        return "the lengths of the fields do not add up to the length of the record"
    if check_crc and body_size and zlib.crc32(record[body_at:topic_at]) & 0x7FFFFFFF != crc:
        return "the checksum of the body is wrong"
    name = bytes(record[topic_at + topic_field : properties_at - 2])
    topic = topics.get(name)
    if topic is None:
        topic = topics[name] = str(name, "utf-8", "replace")
    (store_ms,) = _LONG.unpack_from(record, store_at)
    properties = bytes(record[properties_at:])
    tag_code, keys = describe(topic, properties, store_ms, delays_ms)
    return Entry(
        log_offset, size, topic, queue_id, queue_offset, tag_code, store_ms, sys_flag, prepared_log_offset,
        keys, properties,
    )  # fmt: skip


def survey(data: bytes, log_offset: int, file_end: int, check_crc: bool, delays_ms: Sequence[int]) -> Survey:
    """Read records as `scan` does, and return what queues and index need of them, without a value for each.

    Prepared and rolled-back messages have no queue entry.
    """
    found = scan(data, log_offset, file_end, check_crc, delays_ms, len(data))
    entries = found.entries
    parts: list[tuple[str, int, int, bytearray]] = []
    growing: dict[tuple[str, int], tuple[int, bytearray]] = {}
    for entry in entries:
        if entry.sys_flag & _PREPARED:
            continue
        key = (entry.topic, entry.queue_id)
        next_offset, packed = growing.get(key, (-1, bytearray()))
        if next_offset != entry.queue_offset or next_offset < 0:
            packed = bytearray()
            parts.append((*key, entry.queue_offset, packed))
        packed += pack_queue_entry(entry.log_offset, entry.size_bytes, entry.tag_code)
        growing[key] = (entry.queue_offset + 1, packed)
    return Survey(
        len(entries),
        [Part(topic, queue_id, first, bytes(packed)) for topic, queue_id, first, packed in parts],
        key_rows(entries),
        reduce(or_, (entry.sys_flag for entry in entries), 0),
        entries[-1].log_offset if entries else 0,
        entries[-1].store_ms if entries else 0,
        *found[1:],
    )


def describe(
    topic: str, properties: bytes, store_ms: int, delays_ms: Sequence[int]
) -> tuple[int, tuple[str, ...]]:
    """Return the tag code and the keys that a record's properties stand for.

    Keys are the unique key, the words of KEYS and, as 5.5.0 files it, `T#` with the tag.
    """
    tag = unique = keys = delay = b""
    for pair in properties.split(b"\x02"):
        name, _, value = pair.partition(b"\x01")
        if not value:
            continue
        if name == b"TAGS":
            tag = value
        elif name == b"KEYS":
            keys = value
        elif name == b"UNIQ_KEY":
            unique = value
        elif name == b"DELAY":
            delay = value
    words = tuple(word for word in str(keys, "utf-8", "replace").split(" ") if word)
    if unique:
        words = (str(unique, "utf-8", "replace"), *words)
    if tag:
        words = (*words, TAG_KEY + str(tag, "utf-8", "replace"))
    if topic == DELAY_TOPIC and delay:
        deliver_ms = deliver_ms_of(delay, store_ms, delays_ms)
        if deliver_ms:
            return deliver_ms, words
    return (java_hash(str(tag, "utf-8", "replace")) if tag else 0), words


def deliver_ms_of(delay: bytes, store_ms: int, delays_ms: Sequence[int]) -> int:
    """Return when a message of the delay topic is due; 0 when its level is none."""
    try:
        level = int(delay)
    except ValueError:
        return 0
    if level <= 0 or not delays_ms:
        return 0
    return store_ms + delays_ms[min(level, len(delays_ms)) - 1]
