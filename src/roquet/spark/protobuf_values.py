"""Protobuf: a message's descriptor in Spark's words, and bodies as Python values.

    message Order { int64 id = 1; repeated string tags = 2; }  ─▶  struct<`id`: bigint, `tags`: array<string>>

The descriptors are a file that `protoc --include_imports --descriptor_set_out` writes, or its bytes in
base64: nothing is generated or executed. A field that a message does not set is its default, or null where
the language knows absence. Recursive messages have no column type and are refused.
"""

from __future__ import annotations

import base64
import binascii
import functools
import importlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from roquet.spark.options import OptionError

_TYPES: Final = {
    1: "double",
    2: "float",
    3: "bigint",  # int64
    4: "decimal(20,0)",  # uint64
    5: "int",
    6: "decimal(20,0)",  # fixed64
    7: "bigint",  # fixed32
    8: "boolean",
    9: "string",
    12: "binary",
    13: "bigint",  # uint32
    14: "string",  # enum, by name
    15: "int",
    16: "bigint",
    17: "int",
    18: "bigint",
}
"""Numbers of field types in descriptor.proto, in Spark's words."""

_MESSAGES: Final = (10, 11)
_ENUM: Final = 14
_UNSIGNED_64: Final = (4, 6)


@functools.lru_cache(maxsize=16)
def find(text: str, message: str) -> Any:
    """Return the descriptor of a message; raises OptionError."""
    try:
        data = base64.b64decode(inlined(text), validate=True)
        files = _protobuf("descriptor_pb2").FileDescriptorSet.FromString(data)
    except (binascii.Error, OSError) as error:
        raise OptionError(f"option valueSchema is no file of descriptors and no base64: {error}") from None
    except _protobuf("message").DecodeError as error:
        raise OptionError(f"option valueSchema holds no descriptors: {error}") from None
    pool = _protobuf("descriptor_pool").DescriptorPool()
    try:
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
        return pool.FindMessageTypeByName(message)
    except (KeyError, TypeError) as error:
        known = sorted(
            f"{file.package}.{each.name}".strip(".") for file in files.file for each in file.message_type
        )
        raise OptionError(
            f"option valueMessage: no message {message} among {', '.join(known) or 'none'} ({error})"
        ) from None


def inlined(text: str) -> str:
    """Return descriptors in base64, from a file or as they are: tasks may not have the file."""
    return base64.b64encode(Path(text).read_bytes()).decode() if _is_file(text) else text


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # longer than a path may be
        return False


def ddl(descriptor: Any, above: tuple[str, ...] = ()) -> str:
    """Return the Spark type of a message; raises OptionError for a recursive one."""
    if descriptor.full_name in above:
        raise OptionError(f"protobuf message {descriptor.full_name} holds itself: Spark has no such type")
    inside = (*above, descriptor.full_name)
    fields = [f"`{field.name}`: {_field_ddl(field, inside)}" for field in descriptor.fields]
    return f"struct<{', '.join(fields)}>"


def _field_ddl(field: Any, above: tuple[str, ...]) -> str:
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return f"map<{_one_ddl(key, above)},{_one_ddl(value, above)}>"
    one = _one_ddl(field, above)
    return f"array<{one}>" if _is_repeated(field) else one


def _one_ddl(field: Any, above: tuple[str, ...]) -> str:
    return ddl(field.message_type, above) if field.type in _MESSAGES else _TYPES[field.type]


def _is_map(field: Any) -> bool:
    return field.type in _MESSAGES and field.message_type.GetOptions().map_entry


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


@functools.lru_cache(maxsize=16)
def decoder(text: str, message: str) -> Callable[[bytes], Any]:
    """Return what decodes a body; it raises ValueError."""
    kind = _protobuf("message_factory").GetMessageClass(find(text, message))
    bad = _protobuf("message").DecodeError

    def decode(body: bytes) -> Any:
        try:
            return _value(kind.FromString(body))
        except bad as error:
            raise ValueError(str(error)) from None

    return decode


def _value(message: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        held = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = [(key, _one(inner, value)) for key, value in held.items()]
        elif _is_repeated(field):
            found[field.name] = [_one(field, value) for value in held]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _one(field, held)
    return found


def _one(field: Any, held: Any) -> Any:
    if field.type in _MESSAGES:
        return _value(held)
    if field.type == _ENUM:
        named = field.enum_type.values_by_number.get(held)
        return str(held) if named is None else named.name
    if field.type in _UNSIGNED_64:
        return Decimal(held)
    return held


def _protobuf(module: str) -> Any:
    try:
        return importlib.import_module(f"google.protobuf.{module}")
    except ImportError:
        raise ImportError("format=protobuf needs protobuf: pip install 'roquet[spark]'") from None
