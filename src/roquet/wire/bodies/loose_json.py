"""JSON as Java peers write and read it: raw integer and object keys, members in order, no nulls.

Bodies and the store's configuration files go through here. `loads` takes the strict way first and the
tolerant one (`_loose_reader`) where that fails; the three writers give what 5.5.0 writes. It does not
know any body's members. Keys that are raw numbers are read as int (quoted ones stay str: callers that
expect numbers call int()); an object as a key is an `ObjectKey`.

    dumps           {"table":{0:5,1:7},"who":{{"brokerName":"a","queueId":0,"topic":"t"}:1}}
    dumps_standard  {"table":{"0":5,"1":7}}                           strict JSON, keys in number order
    dumps_pretty    {⏎⇥"table":{⏎⇥⇥0:5,⏎⇥⇥1:7⏎⇥}⏎}                 configuration files, no final newline

Reference: fastjson 1.2.83 and the fastjson2 of 5.5.0, as observed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from roquet.wire.bodies._loose_reader import DEPTH_MAX, LooseJsonError, ObjectKey, read

__all__ = ["LooseJsonError", "ObjectKey", "dumps", "dumps_pretty", "dumps_standard", "loads"]

SIZE_BYTES_MAX = 64 * 1024 * 1024  # four times the largest frame
LOOSE_BYTES_MAX = 512 * 1024
"""A text of a peer that is not strict JSON: reading it is slow, and the event loop waits for it."""

REFERENCE_STEPS_MAX = 100_000  # of all paths in one text: a path may lead through others

_key_of: Callable[[tuple[object, object]], Any] = itemgetter(0)
_quoted: Callable[[str], str] = encode_basestring
_REFERENCE_STEP = re.compile(r"\.?\[(\d+)\]|\.?\[(['\"])(.*?)\2\]|\.((?:[^.\[\\]|\\.)+)")


# Reading.


def loads(data: bytes | str, loose_bytes_max: int = LOOSE_BYTES_MAX) -> object:
    """Return the value; raises LooseJsonError with the position of what cannot be understood.

    Files of our own, read at start-up, may raise the bound on text that is not strict JSON.
    """
    if len(data) > SIZE_BYTES_MAX:
        raise LooseJsonError(f"a text of {len(data)} bytes, more than {SIZE_BYTES_MAX}", SIZE_BYTES_MAX)
    try:
        value: object = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if len(data) > loose_bytes_max:
            what = f"{len(data)} bytes that are not strict JSON, more than {loose_bytes_max}"
            raise LooseJsonError(what, loose_bytes_max) from None
        value = read(_text(data))
    has_references = b"$ref" in data if isinstance(data, bytes) else "$ref" in data
    return _References(value).resolved() if has_references else value


def _text(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise LooseJsonError("not UTF-8", error.start) from error


class _References:
    """Puts the objects that `{"$ref":"$.a[0]"}` names in its place; what leads nowhere becomes None.

    `$` is the root, `@` the object that holds the reference, `..` the one around that. The result may
    contain itself: that is what such a peer meant.
    """

    def __init__(self, root: object) -> None:
        self._root = root
        self._left = REFERENCE_STEPS_MAX

    def resolved(self) -> object:
        # A reference may lead through another one, which must then be resolved first: by its path.
        pending: list[tuple[object, tuple[object, ...]]] = [(self._root, ())]
        while pending:
            holder, above = pending.pop()
            chain = (holder, *above[:1])
            for place, value in _children(holder):
                path = _reference_path(value)
                if path is None:
                    if isinstance(value, dict | list):
                        pending.append((value, chain))
                    continue
                holder[place] = self._target(path, chain)  # type: ignore[index]
        return self._root

    def _target(self, path: str, chain: tuple[object, ...]) -> object:
        if path == "@":
            return chain[0]
        if path == "..":
            return chain[1] if len(chain) > 1 else None
        if not path.startswith("$"):
            return None
        return self._walk(path, DEPTH_MAX)

    def _walk(self, path: str, depth: int) -> object:
        """Follow a path from the root, through other references where it meets them."""
        value, at = self._root, 1
        while at < len(path):
            step = _REFERENCE_STEP.match(path, at)
            if step is None:
                return None
            self._left -= 1
            if self._left < 0:
                raise LooseJsonError(f"references of more than {REFERENCE_STEPS_MAX} steps", 0)
            at = step.end()
            value = _member(value, step)
            inner = _reference_path(value)
            if inner is not None:
                if depth == 0 or not inner.startswith("$"):
                    return None
                value = self._walk(inner, depth - 1)
        return value


def _children(holder: object) -> list[tuple[object, object]]:
    if isinstance(holder, dict):
        return list(holder.items())
    if isinstance(holder, list):
        return list(enumerate(holder))
    return []


def _reference_path(value: object) -> str | None:
    if isinstance(value, dict) and len(value) == 1:
        path = value.get("$ref")
        return path if isinstance(path, str) else None
    return None


def _member(value: object, step: re.Match[str]) -> object:
    if step[1] is not None:
        number = int(step[1]) if len(step[1]) < 10 else -1
        if isinstance(value, list):
            return value[number] if 0 <= number < len(value) else None
        if isinstance(value, dict):
            return value.get(number, value.get(step[1]))
        return None
    name = step[3] if step[3] is not None else re.sub(r"\\(.)", r"\1", step[4])
    if not isinstance(value, dict):
        return None
    if name in value:
        return value[name]
    return value.get(int(name)) if name.isascii() and name.isdigit() and len(name) < 20 else None


# Writing.


class _Dialect(NamedTuple):
    """How one of the writers differs from the others."""

    write_key: Callable[[object, str, int], str]
    indent: str
    is_sorted: bool


def dumps(value: object, *, sort_keys: bool = True) -> bytes:
    """Return the compact text of a body; raises TypeError for what has no JSON form.

    Members that are None are left out. Mappings, msgspec structs, lists, tuples, enums (by name) and
    bytes (as numbers from -128 to 127) are taken.
    """
    return _write(value, _RAW if sort_keys else _RAW._replace(is_sorted=False), "", 0).encode(
        "utf-8", "replace"
    )


def dumps_standard(value: object) -> bytes:
    """Return compact strict JSON: every key quoted, integer keys in the order of their numbers."""
    return _write(value, _STANDARD, "", 0).encode("utf-8", "replace")


def dumps_pretty(value: object) -> bytes:
    """Return the text of a configuration file: tabs, one member or element a line, raw integer keys."""
    return _write(value, _PRETTY, "", 0).encode("utf-8", "replace")


def _write(value: object, dialect: _Dialect, margin: str, depth: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, Enum):
        return _quoted(value.name)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _java_double(value) if math.isfinite(value) else "null"
    if depth > DEPTH_MAX:
        raise ValueError(f"nested deeper than {DEPTH_MAX}, or a value that contains itself")
    inner = margin + dialect.indent
    if isinstance(value, Mapping):
        return _write_members(value, dialect, margin, inner, depth)
    if isinstance(value, msgspec.Struct):
        # Not `msgspec.structs.fields`, which works the annotations out anew with each call (200 µs).
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        members: dict[object, object] = {wire_name: getattr(value, name) for wire_name, name in names}
        return _write_members(members, dialect, margin, inner, depth)
    if isinstance(value, bytes | bytearray):  # on one line, in every dialect
        return "[" + ",".join(str(byte - 256 if byte > 127 else byte) for byte in value) + "]"
    if isinstance(value, list | tuple):
        items = [_write(item, dialect, inner, depth + 1) for item in value]
        return _enclosed("[", items, "]", dialect, margin, inner)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _java_double(value: float) -> str:
    """Return the shortest text of a number in Java's form: 0.001, 9999999.0, 1.0E7, 1.5E-4."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return float.__repr__(value)
    mantissa, _, exponent = f"{Decimal(float.__repr__(value)):E}".partition("E")
    whole, _, fraction = mantissa.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}E{int(exponent)}"


def _write_members(
    members: Mapping[object, object], dialect: _Dialect, margin: str, inner: str, depth: int
) -> str:
    pairs = [(key, value) for key, value in members.items() if value is not None]
    if dialect.is_sorted:
        try:
            pairs.sort(key=_key_of)
        except TypeError:  # keys of several kinds, or objects
            pairs.sort(key=_order)
    write_key = dialect.write_key
    items = [
        f"{write_key(key, inner, depth)}:"
        # Most values are numbers: offset tables have many thousands.
        f"{value if type(value) is int else _write(value, dialect, inner, depth + 1)}"
        for key, value in pairs
    ]
    return _enclosed("{", items, "}", dialect, margin, inner)


def _enclosed(
    opening: str, items: list[str], closing: str, dialect: _Dialect, margin: str, inner: str
) -> str:
    if not items:
        return opening + closing
    if not dialect.indent:
        return opening + ",".join(items) + closing
    separator = f",\n{inner}"
    return f"{opening}\n{inner}{separator.join(items)}\n{margin}{closing}"


def _order(pair: tuple[object, object]) -> tuple[int, int, str]:
    """Sort numbers before names before objects, each in its own order."""
    key = pair[0]
    if isinstance(key, str):
        return 1, 0, key
    if isinstance(key, int):
        return 0, key, ""
    return 2, 0, _raw_key(key, "", 0)


def _raw_key(key: object, margin: str, depth: int) -> str:
    if type(key) is int:
        return str(key)
    return _write(key, _RAW, margin, depth + 1)


def _pretty_key(key: object, margin: str, depth: int) -> str:
    if type(key) is int:
        return str(key)
    return _write(key, _PRETTY, margin, depth + 1)


def _quoted_key(key: object, margin: str, depth: int) -> str:
    if isinstance(key, str) and not isinstance(key, Enum):
        return _quoted(key)
    text = _write(key, _RAW, margin, depth + 1)
    return text if isinstance(key, Enum) else _quoted(text)


_RAW = _Dialect(_raw_key, indent="", is_sorted=True)
_STANDARD = _Dialect(_quoted_key, indent="", is_sorted=True)
_PRETTY = _Dialect(_pretty_key, indent="\t", is_sorted=True)
