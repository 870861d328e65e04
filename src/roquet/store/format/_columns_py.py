"""Records to columns in plain Python: the specification of `_columns_c`."""

from __future__ import annotations

import ipaddress
from array import array
from collections.abc import Callable, Collection, Iterator
from typing import Final

from roquet.model.ids import offset_id
from roquet.model.message import Host, SysFlag, format_properties, parse_properties
from roquet.store.format._columns_values import BYTES_MAX, EVERY, KINDS, OFFSET_MAX, Buffer, Columns, Sieve
from roquet.store.format._record_py import decode, scan
from roquet.store.format._record_values import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_BYTES_MIN,
    Record,
    Stop,
)

Inflate = Callable[[bytes, int], bytes]
ANYWHERE: Final = -1
"""As the log offset of the first byte: the records lie wherever they say (a pull answer)."""


def read_columns(
    data: Buffer,
    position: int,
    wanted: Collection[str],
    *,
    rows_max: int,
    stop_at: int = OFFSET_MAX,
    sieve: Sieve = EVERY,
    log_offset: int = ANYWHERE,
    check_crc: bool = False,
    inflate: Inflate | None = None,
) -> Columns:
    """Read up to `rows_max` rows from `data[position:]`; `log_offset` is that of `data[0]`.

    Records that begin at or behind `stop_at` are left alone.
    """
    makers = {name: _MAKERS[KINDS[name]]() for name in wanted}
    rows = 0
    view = memoryview(data)
    stop, fault = Stop.MORE, ""
    largest = 0
    while rows < rows_max and position < stop_at and largest < BYTES_MAX:
        size, stop, fault = _frame(view, position)
        if not size:
            break
        at = ANYWHERE if log_offset == ANYWHERE else log_offset + position
        found, fault = _record(bytes(view[position : position + size]), at, check_crc)
        if found is None:
            stop = Stop.BROKEN
            break
        position += size
        if not passes(found, sieve):
            continue
        rows += 1
        for name, maker in makers.items():
            maker.add(_value(found, name, inflate))
            largest = max(largest, maker.size_bytes)
    return Columns(rows, position, stop, fault, {name: maker.buffers() for name, maker in makers.items()})


def passes(record: Record, sieve: Sieve) -> bool:
    """True when the record is to become a row."""
    return (
        (not sieve.topics or record.topic.encode() in sieve.topics)
        and (not sieve.queue_ids or record.queue_id in sieve.queue_ids)
        and sieve.queue_offset_from <= record.queue_offset < sieve.queue_offset_to
        and sieve.store_ms_from <= record.store_ms < sieve.store_ms_to
    )


def _frame(view: memoryview, position: int) -> tuple[int, Stop, str]:
    """Return the size of the record at `position`, 0 with the reason when there is none to read."""
    rest = len(view) - position
    if rest < 8:
        return 0, Stop.MORE, ""
    size = int.from_bytes(view[position : position + 4], "big", signed=True)
    magic = int.from_bytes(view[position + 4 : position + 8], "big")
    if magic == MAGIC_BLANK:
        return 0, Stop.FILE_END, ""
    if size == 0 and magic == 0:
        return 0, Stop.ZEROS, ""
    if magic not in (MAGIC_V1, MAGIC_V2):
        return 0, Stop.BROKEN, f"magic {magic:#010x} is not that of a record"
    if size < RECORD_SIZE_BYTES_MIN:
        return 0, Stop.BROKEN, f"{size} bytes are too few for a record"
    if size > rest:
        return 0, Stop.MORE, ""
    return size, Stop.MORE, ""


def _record(data: bytes, log_offset: int, check_crc: bool) -> tuple[Record | None, str]:
    """Return the record and no fault, or none and what is wrong with it."""
    at = int.from_bytes(data[28:36], "big", signed=True) if log_offset == ANYWHERE else log_offset
    seen = scan(data, at, at + len(data), check_crc, (), 1)
    return (None, seen.reason) if seen.stop is Stop.BROKEN else (decode(data), "")


def _value(record: Record, name: str, inflate: Inflate | None) -> object:
    if name == "body":
        is_packed = record.sys_flag & SysFlag.COMPRESSED and inflate is not None
        return inflate(record.body, record.sys_flag) if is_packed and inflate else record.body
    if name == "topic":
        return record.topic.encode()
    if name == "born_us":
        return record.born_ms * 1000
    if name == "store_us":
        return record.store_ms * 1000
    if name in ("born_host", "store_host"):
        return host_text(record.born_host if name == "born_host" else record.store_host).encode()
    if name in ("tag", "keys", "properties", "message_id"):
        pairs = parse_properties(str(record.properties, "utf-8", "replace"))
        if name == "tag":
            return pairs.get("TAGS", "").encode()
        if name == "keys":
            return [word.encode() for word in pairs.get("KEYS", "").split(" ") if word]
        if name == "properties":
            return [(key.encode(), value.encode()) for key, value in pairs.items()]
        return (pairs.get("UNIQ_KEY") or offset_id(record.store_host, record.log_offset)).encode()
    return getattr(record, name)


def host_text(host: Host) -> str:
    """Return `ip:port`, with brackets around an IPv6 address."""
    ip = ipaddress.ip_address(host.ip)
    return f"[{ip}]:{host.port}" if host.is_v6 else f"{ip}:{host.port}"


def cleaned(properties: bytes) -> bytes:
    """Return the properties in valid UTF-8, each name once, in the form that the walk expects."""
    return format_properties(parse_properties(properties.decode("utf-8", "replace"))).encode()


def mended(text: bytes) -> bytes:
    """Return the text in valid UTF-8."""
    return text.decode("utf-8", "replace").encode()


class _Numbers:
    def __init__(self, code: str) -> None:
        self._values = array(code)

    size_bytes = 0

    def add(self, value: object) -> None:
        assert isinstance(value, int)
        self._values.append(value)

    def buffers(self) -> tuple[Buffer, ...]:
        return (self._values.tobytes(),)


class _Texts:
    """Byte strings behind each other and where each ends."""

    def __init__(self) -> None:
        self._offsets = array("i", [0])
        self._data = bytearray()

    @property
    def size_bytes(self) -> int:
        return len(self._data)

    @property
    def count(self) -> int:
        return len(self._offsets) - 1

    def add(self, value: object) -> None:
        assert isinstance(value, bytes)
        self._data += value
        self._offsets.append(len(self._data))

    def buffers(self) -> tuple[Buffer, ...]:
        return self._offsets.tobytes(), bytes(self._data)


class _Lists:
    """Several byte strings a row, or several pairs of them."""

    def __init__(self, width: int) -> None:
        self._offsets = array("i", [0])
        self._parts = [_Texts() for _ in range(width)]

    @property
    def size_bytes(self) -> int:
        return max(part.size_bytes for part in self._parts)

    def add(self, value: object) -> None:
        assert isinstance(value, list)
        for item in value:
            words = item if isinstance(item, tuple) else (item,)
            for part, word in zip(self._parts, words, strict=True):
                part.add(word)
        self._offsets.append(self._parts[0].count)

    def buffers(self) -> tuple[Buffer, ...]:
        return (self._offsets.tobytes(), *self._inner())

    def _inner(self) -> Iterator[Buffer]:
        for part in self._parts:
            yield from part.buffers()


_Maker = _Numbers | _Texts | _Lists

_MAKERS: Final[dict[str, Callable[[], _Maker]]] = {
    "int32": lambda: _Numbers("i"),
    "int64": lambda: _Numbers("q"),
    "text": _Texts,
    "bytes": _Texts,
    "texts": lambda: _Lists(1),
    "pairs": lambda: _Lists(2),
}
