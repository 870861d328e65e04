"""Avro: a schema in Spark's words, and bodies of its plain binary form (no file header) as Python values.

    {"type": "record", "fields": [{"name": "id", "type": "long"}]}  ─▶  struct<`id`: bigint>

A union with null is its other branch; other unions have no column type and are refused. fastavro decodes.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable
from typing import Any, Final

from roquet.spark.options import OptionError

_PLAIN: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL: Final = {
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp_ntz",
    "local-timestamp-micros": "timestamp_ntz",
    "uuid": "string",
}


def parse(text: str) -> Any:
    """Return a schema; raises OptionError when it is none."""
    fastavro = _fastavro()
    try:
        schema = json.loads(text)
        fastavro.parse_schema(schema)
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise OptionError(f"option valueSchema is no Avro schema: {error}") from None
    except fastavro.schema.UnknownType as error:
        raise OptionError(
            f"option valueSchema names the type {error.name}, which it does not define"
        ) from None
    return schema


def ddl(schema: Any, named: dict[str, Any] | None = None) -> str:
    """Return the Spark type of a schema; raises OptionError for what Spark has no type for."""
    named = {} if named is None else named
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if len(branches) != 1:
            raise OptionError(f"option valueSchema has a union that is no column: {json.dumps(schema)}")
        return ddl(branches[0], named)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if schema not in named:
            raise OptionError(f"option valueSchema: {schema} has no type in Spark")
        return ddl(named[schema], named)
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return ddl(kind, named)
    if "name" in schema and kind in ("enum", "fixed"):
        named[schema["name"]] = schema
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return f"array<{ddl(schema['items'], named)}>"
    if kind == "map":
        return f"map<string,{ddl(schema['values'], named)}>"
    if kind == "record":
        fields = [f"`{field['name']}`: {ddl(field['type'], named)}" for field in schema["fields"]]
        named[schema["name"]] = schema
        return f"struct<{', '.join(fields)}>"
    return ddl(kind, named)


@functools.lru_cache(maxsize=16)
def decoder(text: str) -> Callable[[bytes], Any]:
    """Return what decodes a body; it raises ValueError or EOFError."""
    fastavro = _fastavro()
    schema = fastavro.parse_schema(json.loads(text))

    def decode(body: bytes) -> Any:
        stream = io.BytesIO(body)
        value = fastavro.schemaless_reader(stream, schema, None)
        if stream.tell() != len(body):
            raise ValueError(f"{len(body) - stream.tell()} bytes are left over")
        return value

    return decode


def _fastavro() -> Any:
    try:
        import fastavro
        import fastavro.schema
    except ImportError:
        raise ImportError("format=avro needs fastavro: pip install 'roquet[spark]'") from None
    return fastavro
