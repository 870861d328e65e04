"""How a request is declared: once, as a small class, from which everything else is derived.

    @request(30, "GET_MAX_OFFSET", reply=Offset, to="broker", touches=("topic", "get"))
    class GetMaxOffset:
        topic: str
        queue_id: Int32

The decorator makes a slotted dataclass, writes straight-line `decode` and `encode` for its fields and
files the row in `TABLE`. Wire names are the field names in camelCase, or what `named("a")` says. The
router, the access check, the fuzz seeds, the round-trip tests and docs/protocol.md all read the table.
`exec` runs only over text made here from our own declarations.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar, dataclass_transform

Int32 = Annotated[int, 32]
"""A field that must fit Java's int; a plain `int` must fit its long."""

Receiver = Literal["broker", "names", "client"]
Resource = Literal["topic", "group", "cluster", "none"]
Action = Literal["pub", "sub", "get", "create", "update", "delete"]


class FieldError(Exception):
    """A request lacks a field or holds one that cannot be read."""


class Header:
    """What every declared request and answer offers; the decorator fills it in."""

    __slots__ = ()
    WIRE: ClassVar[tuple[Field, ...]] = ()

    @classmethod
    def decode(cls, ext: Mapping[str, str]) -> Self:
        """Return the typed header; raises FieldError that names the field."""
        raise AssertionError("written by the decorator")

    def encode(self) -> dict[str, str]:
        """Return the ext fields; absent (None) ones are left out."""
        raise AssertionError("written by the decorator")


class Field(NamedTuple):
    """One field of a header: its attribute, its name on the wire and its type."""

    attribute: str
    wire: str
    kind: Literal["text", "int32", "int64", "flag"]
    required: bool
    default: object


class Row(NamedTuple):
    """One line of the table."""

    code: int
    name: str
    header: type[Header]
    reply: type[Header] | None
    to: tuple[Receiver, ...]
    resource: Resource
    action: Action
    admin: bool
    doc: str


TABLE: dict[int, Row] = {}
"""Every request that we know, by its code."""

H = TypeVar("H", bound=type)


def named(wire_name: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Name the field on the wire where it is not the attribute in camelCase."""
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata={"wire": wire_name})
    return dataclasses.field(default=default, metadata={"wire": wire_name})


@dataclass_transform(field_specifiers=(named,))
def request(
    code: int,
    name: str,
    *,
    to: Receiver | tuple[Receiver, ...],
    reply: type[Header] | None = None,
    touches: tuple[Resource, Action] = ("none", "get"),
    admin: bool = False,
) -> Callable[[H], H]:
    """Declare a request. `admin` marks what only loopback peers may ask while access control is off."""

    def file(declared: H) -> H:
        built = _build(declared)
        assert code not in TABLE, f"request code {code} is declared twice"
        TABLE[code] = Row(
            code,
            name,
            built,
            reply,
            (to,) if isinstance(to, str) else to,
            touches[0],
            touches[1],
            admin,
            (declared.__doc__ or "").strip(),
        )
        built.ROW = TABLE[code]
        return typing.cast(H, built)

    return file


@dataclass_transform(field_specifiers=(named,))
def header(declared: H) -> H:
    """Declare the header of an answer (or one that several requests share)."""
    return typing.cast(H, _build(declared))


def row_of(declared: type) -> Row:
    """Return the table's row of a request class."""
    row: Row = declared.ROW  # type: ignore[attr-defined]
    return row


def _build(declared: type) -> Any:
    """Return a slotted dataclass on `Header` with generated codec methods."""
    namespace = {
        name: value for name, value in vars(declared).items() if name not in ("__dict__", "__weakref__")
    }
    bases = declared.__bases__ if issubclass(declared, Header) else (Header,)
    plain = types.new_class(declared.__name__, bases, {}, lambda body: body.update(namespace))
    built: Any = dataclasses.dataclass(slots=True)(plain)
    hints = typing.get_type_hints(declared, include_extras=True)
    fields = tuple(_field(each, hints[each.name]) for each in dataclasses.fields(built))
    built.WIRE = fields
    built.decode = classmethod(_write_decode(fields))
    built.encode = _write_encode(fields)
    return built


def _field(declared: dataclasses.Field[Any], hint: Any) -> Field:
    required = declared.default is dataclasses.MISSING
    kinds: dict[Any, Literal["text", "int32", "int64", "flag"]] = {
        str: "text",
        int: "int64",
        bool: "flag",
        Int32: "int32",
    }
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    bare = parts[0] if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union else hint
    wire = declared.metadata.get("wire") or _camel(declared.name)
    return Field(declared.name, wire, kinds[bare], required, None if required else declared.default)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def int32(text: str) -> int:
    """Return the number of a text that must fit 32 bits; raises ValueError."""
    value = int(text)
    if -0x80000000 <= value <= 0x7FFFFFFF:
        return value
    raise ValueError("wider than 32 bits")


def int64(text: str) -> int:
    """Return the number of a text that must fit 64 bits; raises ValueError."""
    value = int(text)
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        return value
    raise ValueError("wider than 64 bits")


def flag(text: str) -> bool:
    """Return Java's reading of a boolean: the word true in any letter case, else false."""
    return text == "true" or text.lower() == "true"


_BOUNDS: dict[str, tuple[int, int]] = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_READERS: dict[str, Callable[[str], object]] = {"text": str, "int32": int32, "int64": int64, "flag": flag}


def _write_decode(fields: tuple[Field, ...]) -> Callable[..., Any]:
    """Write `decode`: one expression a field, one check of all ranges, an explanation only when one fails."""
    lines = ["def decode(cls, ext):", "    get = ext.get", "    try:"]
    checks = []
    for number, field in enumerate(fields):
        text = f"ext[{field.wire!r}]" if field.required else "text"
        value = {
            "text": text,
            "int32": f"int({text})",
            "int64": f"int({text})",
            "flag": f"(text := {text}) == 'true' or text != 'false' and flag(text)",
        }[field.kind]
        if not field.required:
            value = f"default{number} if (text := get({field.wire!r})) is None else {value}"
        lines.append(f"        v{number} = {value}")
        if field.kind in _BOUNDS:
            low, high = _BOUNDS[field.kind]
            absent = "" if field.required or field.default is not None else f"v{number} is None or "
            checks.append(f"({absent}{low} <= v{number} <= {high})")
    if not fields:
        lines.append("        pass")
    values = ", ".join(f"v{number}" for number in range(len(fields)))
    lines += [
        "    except (KeyError, ValueError):",
        "        raise explain(ext) from None",
        f"    if {' and '.join(checks) or 'True'}:",
        f"        return cls({values})",
        "    raise explain(ext)",
    ]

    def explain(ext: Mapping[str, str]) -> FieldError:
        for field in fields:
            text = ext.get(field.wire)
            if text is None:
                if field.required:
                    return FieldError(f"the field {field.wire} is missing")
                continue
            try:
                _READERS[field.kind](text)
            except ValueError as error:
                return FieldError(f"the field {field.wire} is {text[:80]!r}: {error}")
        raise AssertionError("a field failed and none is wrong")

    scope: dict[str, Any] = {"flag": flag, "explain": explain}
    scope |= {f"default{number}": field.default for number, field in enumerate(fields)}
    exec("\n".join(lines), scope)
    decode: Callable[..., Any] = scope["decode"]
    return decode


def _write_encode(fields: tuple[Field, ...]) -> Callable[..., dict[str, str]]:
    """Write `encode`: a literal for the required fields, a line for each optional one."""
    forms = {
        "text": "{}",
        "int32": "str({})",
        "int64": "str({})",
        "flag": "('true' if {} else 'false')",
    }
    items = ", ".join(
        f"{field.wire!r}: {forms[field.kind].format('self.' + field.attribute)}"
        for field in fields
        if field.required
    )
    lines = ["def encode(self):", "    ext = {" + items + "}"]
    for field in fields:
        if not field.required:
            lines.append(f"    if (value := self.{field.attribute}) is not None:")
            lines.append(f"        ext[{field.wire!r}] = {forms[field.kind].format('value')}")
    lines.append("    return ext")
    scope: dict[str, Any] = {}
    exec("\n".join(lines), scope)
    encode: Callable[..., dict[str, str]] = scope["encode"]
    return encode
