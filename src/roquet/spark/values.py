"""Bodies decoded into the column `value`: text, JSON, Avro or protobuf.

    option format ─▶ `value_ddl`: the column's type in Spark's words          (driver)
                  ─▶ `ValueReader.read`: bodies ─▶ value, value_error         (tasks)

Whatever does not decode is an error that says which row, or null with the reason in `value_error`. The
libraries fastavro and protobuf are imported when their format is asked for. Text is checked by Arrow; the
other formats make an object of each body, which is what they cost; JSON makes only what the type asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from roquet.spark import avro_values, json_values, protobuf_values
from roquet.spark.options import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

VALUE: Final = "value"
VALUE_ERROR: Final = "value_error"

Decode = Callable[[bytes], Any]


class BadValue(ValueError):
    """A body that does not decode."""


class Format(NamedTuple):
    """What the options say about bodies."""

    kind: str
    schema: str = ""
    message: str = ""
    bad_to_column: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Format | None:
        """Return the format that options ask for; None when bodies stay as they are."""
        if given["format"] is None:
            return None
        schema, message = given["valueSchema"] or "", given["valueMessage"] or ""
        if given["format"] == "protobuf":
            schema = protobuf_values.inlined(schema)
        return cls(given["format"], schema, message, given["badValues"] == "column")

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it adds."""
        return (VALUE, VALUE_ERROR) if self.bad_to_column else (VALUE,)


def value_ddl(format: Format) -> str:
    """Return the type of the column `value` as Spark writes it; raises OptionError."""
    if format.kind == "string":
        return "string"
    if format.kind == "avro":
        return avro_values.ddl(avro_values.parse(format.schema))
    if format.kind == "protobuf":
        return protobuf_values.ddl(protobuf_values.find(format.schema, format.message))
    text = format.schema.strip()
    if not text:
        raise OptionError("format=json needs the option valueSchema, or a schema with the column value")
    is_type = text.partition("<")[0].strip().lower() in ("struct", "array", "map") or " " not in text
    return text if is_type else f"struct<{text}>"


class ValueReader(NamedTuple):
    """Decodes bodies into one Arrow type; travels to every task."""

    format: Format
    type: pa.DataType

    @property
    def names(self) -> tuple[str, ...]:
        return self.format.names

    def read(self, bodies: pa.Array) -> dict[str, pa.Array]:
        """Return the columns of some bodies; raises BadValue unless bad ones go to their column."""
        import pyarrow as pa

        found = self._read_whole(bodies)
        errors = pa.nulls(len(bodies), pa.string())
        if found is None:
            found, errors = self._read_each(bodies)
        return {VALUE: found, VALUE_ERROR: errors}

    def _read_whole(self, bodies: pa.Array) -> pa.Array | None:
        """Return all values, or None when one of them is bad."""
        import pyarrow as pa

        try:
            if self.format.kind == "string":
                text = bodies.cast(pa.string())
                text.validate(full=True)
                return text
            decode = self._decoder()
            return pa.array([decode(body) for body in bodies.to_pylist()], self.type)
        except (ValueError, TypeError, KeyError, EOFError, IndexError, OverflowError):
            return None

    def _read_each(self, bodies: pa.Array) -> tuple[pa.Array, pa.Array]:
        import pyarrow as pa

        decode = self._decoder()
        values: list[Any] = []
        errors: list[str | None] = []
        for body in bodies.to_pylist():
            try:
                value = decode(body)
                pa.array([value], self.type)
            except (ValueError, TypeError, KeyError, EOFError, IndexError, OverflowError) as error:
                reason = f"{type(error).__name__}: {error}"[:300]
                if not self.format.bad_to_column:
                    raise BadValue(
                        f"a body is no {self.format.kind} of the schema ({reason}): {body[:80]!r}. "
                        "With the option badValues=column such rows are kept, with the reason"
                    ) from None
                values.append(None)
                errors.append(reason)
            else:
                values.append(value)
                errors.append(None)
        return pa.array(values, self.type), pa.array(errors, pa.string())

    def _decoder(self) -> Decode:
        format = self.format
        if format.kind == "string":
            return bytes.decode
        if format.kind == "avro":
            return avro_values.decoder(format.schema)
        if format.kind == "protobuf":
            return protobuf_values.decoder(format.schema, format.message)
        return json_values.decoder(self.type)
