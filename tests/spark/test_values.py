"""Bodies as values: four formats, their types in Spark's words, and bodies that do not decode."""

from __future__ import annotations

import base64
import importlib
import io
import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from roquet.spark.options import OptionError
from roquet.spark.values import BadValue, Format, ValueReader, value_ddl

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "again", "type": "Kind"},
        {"name": "prices", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    ],
}


def read(format: Format, kind: Any, *bodies: bytes) -> dict[str, list[Any]]:
    columns = ValueReader(format, kind).read(pa.array(bodies, pa.binary()))
    return {name: column.to_pylist() for name, column in columns.items()}


@pytest.mark.parametrize(
    ("schema", "ddl"),
    [
        ("id bigint, name string", "struct<id bigint, name string>"),
        ("struct<id: bigint>", "struct<id: bigint>"),
        ("array<int>", "array<int>"),
        ("map<string, int>", "map<string, int>"),
        ("bigint", "bigint"),
    ],
)
def test_types_for_json(schema: str, ddl: str) -> None:
    assert value_ddl(Format("json", schema)) == ddl


def test_json() -> None:
    kind = pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.string()))])
    good = b'{"id": 1, "tags": ["a"], "more": true}'
    assert read(Format("json"), kind, good) == {
        "value": [{"id": 1, "tags": ["a"]}],
        "value_error": [None],
    }
    mixed = read(Format("json", bad_to_column=True), kind, good, b"{", b'{"id": "one"}')
    assert mixed["value"] == [{"id": 1, "tags": ["a"]}, None, None]
    assert mixed["value_error"][0] is None
    assert all(mixed["value_error"][1:])
    with pytest.raises(BadValue, match="a body is no json of the schema"):
        read(Format("json"), kind, good, b"{")


UTC_12 = datetime(2026, 11, 15, 12, 0, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"2026-11-15T12:00:03Z"', UTC_12),
        ('"2026-11-15T13:00:03+01:00"', UTC_12),
        ('"2026-11-15T12:00:03.25Z"', UTC_12.replace(microsecond=250_000)),
        ('"2026-11-15T12:00:03"', UTC_12),  # without a zone: UTC
        ('"2026-11-15 12:00:03"', UTC_12),
        ('"20261115T120003Z"', UTC_12),
        ('"2026-11-15"', UTC_12.replace(hour=0, second=0)),
        (str(int(UTC_12.timestamp())), UTC_12),  # as from_json: seconds
        ("null", None),
    ],
)
def test_times_in_json(text: str, found: datetime | None) -> None:
    kind = pa.struct([("at", pa.timestamp("us", tz="UTC")), ("all", pa.list_(pa.timestamp("us", tz="UTC")))])
    body = f'{{"at": {text}, "all": [{text}, null]}}'.encode()
    assert read(Format("json"), kind, body)["value"] == [{"at": found, "all": [found, None]}]


def test_dates_local_times_and_decimals_in_json() -> None:
    kind = pa.struct(
        [("day", pa.date32()), ("at", pa.timestamp("us")), ("sum", pa.decimal128(10, 2)),
         ("by", pa.map_(pa.string(), pa.date32()))]
    )  # fmt: skip
    first = b'{"day": "2026-11-15", "at": "2026-11-15T12:00:03", "sum": 1.10, "by": {"a": "2026-11-16"}}'
    short = b'{"day": "2026-11-15T23:00", "at": "2026-11-15 12:00", "sum": "1.1", "by": {"a": null}}'
    noon = datetime(2026, 11, 15, 12)
    assert read(Format("json"), kind, first, short)["value"] == [
        {"day": date(2026, 11, 15), "at": noon.replace(second=3), "sum": Decimal("1.10"),
         "by": [("a", date(2026, 11, 16))]},
        {"day": date(2026, 11, 15), "at": noon, "sum": Decimal("1.10"), "by": [("a", None)]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ('"at": "yesterday"', r"at `\$.at`"),
        ('"at": 1.5', r"at `\$.at`"),
        ('"at": true', r"at `\$.at`"),
        ('"at": 99999999999999', r"at `\$.at`"),
        ('"local": "2026-11-15T12:00:03Z"', r"at `\$.local`"),
        ('"day": 20261115', r"at `\$.day`"),
        ('"day": "2026-02-30"', r"at `\$.day`"),
        ('"sum": 1.005', "data loss"),
    ],
)
def test_times_and_numbers_that_are_none_in_json(field: str, why: str) -> None:
    kind = pa.struct(
        [("at", pa.timestamp("us", tz="UTC")), ("local", pa.timestamp("us")), ("day", pa.date32()),
         ("sum", pa.decimal128(10, 2))]
    )  # fmt: skip
    good = b'{"at": "2026-11-15T12:00:03Z"}'
    bad = b"{%s}" % field.encode()
    found = read(Format("json", bad_to_column=True), kind, good, bad, good)
    assert [value and value["at"] for value in found["value"]] == [UTC_12, None, UTC_12]
    assert found["value_error"][0] is None
    assert re.search(why, found["value_error"][1])
    with pytest.raises(BadValue, match="a body is no json of the schema"):
        read(Format("json"), kind, good, bad)


def test_string() -> None:
    assert read(Format("string"), pa.string(), "grün".encode())["value"] == ["grün"]
    mixed = read(Format("string", bad_to_column=True), pa.string(), b"a", b"\xff")
    assert mixed["value"] == ["a", None]
    with pytest.raises(BadValue, match="no string"):
        read(Format("string"), pa.string(), b"\xff")


def test_avro() -> None:
    fastavro = importlib.import_module("fastavro")
    format = Format("avro", json.dumps(ORDER))
    assert value_ddl(format) == (
        "struct<`id`: bigint, `note`: string, `kind`: string, `again`: string, "
        "`prices`: map<string,array<double>>, `day`: date, `sum`: decimal(10,2)>"
    )
    plain = {"type": "record", "name": "P", "fields": ORDER["fields"][:2]}
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(plain), {"id": 7, "note": None})
    kind = pa.struct([("id", pa.int64()), ("note", pa.string())])
    format = Format("avro", json.dumps(plain), bad_to_column=True)
    found = read(format, kind, data.getvalue(), data.getvalue() + b"x", b"")
    assert found["value"] == [{"id": 7, "note": None}, None, None]
    assert "1 bytes are left over" in found["value_error"][1]
    assert found["value_error"][2]


@pytest.mark.parametrize(
    ("schema", "what"),
    [
        ("{", "no Avro schema"),
        ('{"type": "zork"}', "zork"),
        ('["int", "string"]', "union that is no column"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": "A"}]}', "no type in Spark"),
    ],
)  # fmt: skip
def test_avro_schemas_that_are_none(schema: str, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        value_ddl(Format("avro", schema))


def descriptors() -> Any:
    """Return what protoc makes of a small file with a message, an enum, a map and a nested message."""
    pb = importlib.import_module("google.protobuf.descriptor_pb2")
    file = pb.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.enum_type.add(name="Kind").value.add(name="NEW", number=0)
    line = file.message_type.add(name="Line")
    line.field.add(name="count", number=1, type=13, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="kind", number=2, type=14, label=1, type_name=".shop.Kind")
    order.field.add(name="lines", number=3, type=11, label=3, type_name=".shop.Line")
    order.field.add(name="first", number=4, type=11, label=1, type_name=".shop.Line")
    entry = order.nested_type.add(name="NotesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=9, label=1)
    order.field.add(name="notes", number=5, type=11, label=3, type_name=".shop.Order.NotesEntry")
    knot = file.message_type.add(name="Knot")
    knot.field.add(name="in", number=1, type=11, label=1, type_name=".shop.Knot")
    return pb.FileDescriptorSet(file=[file])


def test_protobuf(tmp_path: Path) -> None:
    data = descriptors().SerializeToString()
    (tmp_path / "shop.desc").write_bytes(data)
    text = base64.b64encode(data).decode()
    ddl = (
        "struct<`id`: bigint, `kind`: string, `lines`: array<struct<`count`: bigint>>, "
        "`first`: struct<`count`: bigint>, `notes`: map<string,string>>"
    )
    assert value_ddl(Format("protobuf", text, "shop.Order")) == ddl
    assert value_ddl(Format("protobuf", str(tmp_path / "shop.desc"), "shop.Order")) == ddl
    line = pa.struct([("count", pa.int64())])
    kind = pa.struct(
        [("id", pa.int64()), ("kind", pa.string()), ("lines", pa.list_(line)), ("first", line),
         ("notes", pa.map_(pa.string(), pa.string()))]
    )  # fmt: skip
    body = b"\x08\x05\x1a\x02\x08\x03\x2a\x06\x0a\x01a\x12\x01b"
    found = read(Format("protobuf", text, "shop.Order", bad_to_column=True), kind, body, b"\xff")
    assert found["value"][0] == {
        "id": 5, "kind": "NEW", "lines": [{"count": 3}], "first": None, "notes": [("a", "b")],
    }  # fmt: skip
    assert found["value"][1] is None
    assert found["value_error"][1]


def test_protobuf_that_is_none() -> None:
    text = base64.b64encode(descriptors().SerializeToString()).decode()
    with pytest.raises(OptionError, match="no message shop.Bill among shop.Knot, shop.Line, shop.Order"):
        value_ddl(Format("protobuf", text, "shop.Bill"))
    with pytest.raises(OptionError, match="Knot holds itself"):
        value_ddl(Format("protobuf", text, "shop.Knot"))
    with pytest.raises(OptionError, match="no file of descriptors and no base64"):
        value_ddl(Format("protobuf", "nowhere.desc", "shop.Order"))
    with pytest.raises(OptionError, match="holds no descriptors"):
        value_ddl(Format("protobuf", base64.b64encode(b"\xff\xff").decode(), "shop.Order"))
