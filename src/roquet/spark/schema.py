"""The table's columns in Spark's words, and what a user's own schema makes of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from roquet.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TYPES: Final = {
    "topic": "string",
    "broker": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "body": "binary",
    "tag": "string",
    "keys": "array<string>",
    "properties": "map<string,string>",
    "message_id": "string",
    "born_time": "timestamp",
    "store_time": "timestamp",
    "born_host": "string",
    "store_host": "string",
    "reconsume_times": "int",
    "sys_flag": "int",
    "flag": "int",
    "log_offset": "bigint",
    "damage": "string",
    "value_error": "string",
}


def ddl(names: Sequence[str]) -> str:
    """Return the schema of these columns as Spark writes it."""
    return ", ".join(f"{name} {TYPES[name]}" for name in names)


def projection(schema: StructType, offered: Sequence[str], any_type: Sequence[str] = ()) -> list[str]:
    """Return which columns a schema asks for; raises OptionError for one that there is not, or not so."""
    names = []
    for field in schema.fields:
        if field.name not in offered:
            near = difflib.get_close_matches(field.name, offered, 1, 0.5)
            offer = f"did you mean {near[0]}?" if near else f"there are {', '.join(offered)}"
            raise OptionError(f"there is no column {field.name}: {offer}")
        if field.name not in any_type and field.dataType.simpleString() != TYPES[field.name]:
            raise OptionError(
                f"column {field.name} is {TYPES[field.name]}, not {field.dataType.simpleString()}: "
                "ask for it as it is and cast it in the query"
            )
        names.append(field.name)
    return names
