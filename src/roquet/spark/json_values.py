"""JSON: bodies as Python values of one Arrow type, as Spark's `from_json` reads them.

    Arrow type ─▶ a type that msgspec knows ─▶ typed decoding: fields that are not wanted are never made
                                            └▶ what that refuses ─▶ plain decoding, then a walk along the type

The first way is the fast one: it reads RFC 3339 times, dates and exact decimals in the parser. The second
takes the other forms that `from_json` takes: shorter ISO times, seconds as whole numbers. A time without a
zone is UTC. What neither reads raises ValueError; numbers that are too large Arrow refuses later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

if TYPE_CHECKING:
    import pyarrow as pa


@functools.lru_cache(maxsize=16)
def decoder(kind: pa.DataType) -> Callable[[bytes], Any]:
    """Return what decodes a body; it raises ValueError."""
    import msgspec

    typed = msgspec.json.Decoder(_typed(kind) | None).decode
    plain = msgspec.json.Decoder(float_hook=Decimal).decode

    def decode(body: bytes) -> Any:
        try:
            return typed(body)
        except msgspec.ValidationError as refused:
            try:
                return _along(kind, plain(body))
            except (ValueError, TypeError, OverflowError):
                raise ValueError(str(refused)) from None  # it says where in the body

    return decode


def _typed(kind: pa.DataType) -> Any:
    """Return an Arrow type in msgspec's words; what it has no word for is left to Arrow."""
    import msgspec
    import pyarrow as pa

    is_a = pa.types
    if is_a.is_struct(kind):
        fields = {field.name: _typed(field.type) | None for field in kind}
        return TypedDict("Value", fields, total=False)  # type: ignore[operator]
    if is_a.is_list(kind):
        return list[_typed(kind.value_type) | None]  # type: ignore[misc]
    if is_a.is_map(kind):
        return dict[str, _typed(kind.item_type) | None]  # type: ignore[misc]
    if is_a.is_timestamp(kind):
        return datetime if kind.tz else Annotated[datetime, msgspec.Meta(tz=False)]
    for test, word in (
        (is_a.is_boolean, bool), (is_a.is_integer, int), (is_a.is_floating, float), (is_a.is_string, str),
        (is_a.is_decimal, Decimal), (is_a.is_date, date), (is_a.is_binary, bytes),
    ):  # fmt: skip
        if test(kind):
            return word
    return Any


def _along(kind: pa.DataType, value: Any) -> Any:
    """Return a plain value with the texts and numbers in it that stand for times turned into times."""
    import msgspec
    import pyarrow as pa

    is_a = pa.types
    if value is None:
        return None
    if is_a.is_struct(kind) and isinstance(value, dict):
        return {field.name: _along(field.type, value.get(field.name)) for field in kind}
    if is_a.is_list(kind) and isinstance(value, list):
        return [_along(kind.value_type, each) for each in value]
    if is_a.is_map(kind) and isinstance(value, dict):
        return [(name, _along(kind.item_type, each)) for name, each in value.items()]
    if is_a.is_timestamp(kind):
        return _moment(value, has_zone=bool(kind.tz))
    if is_a.is_date(kind):
        return datetime.fromisoformat(value).date()
    return msgspec.convert(value, _typed(kind))


def _moment(value: Any, has_zone: bool) -> datetime:
    """Return a time: ISO 8601 in any of its forms, or seconds since 1970 as a whole number."""
    if has_zone and isinstance(value, int) and not isinstance(value, bool):
        return datetime.fromtimestamp(value, UTC)
    found = datetime.fromisoformat(value)
    if found.tzinfo is not None and not has_zone:
        raise ValueError(f"{value} has a time zone, and the type timestamp_ntz has none")
    return found
