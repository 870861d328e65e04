"""Arguments of a pipeline: the fields of its class, from which both command lines are made.

    class Archive:                                                   --to FOLDER  (required)
        to: Annotated[str, "Folder of the archive."]          ▶      --every 1m
        every: Annotated[timedelta | None, "How often."] = None

A field's type says how its text is read, its note is its help, its default its default. `build` makes the
object from texts, or raises OptionError with one sentence. Pure, but for "2h ago", which asks the time.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from roquet.spark import options as opt

Made = TypeVar("Made")

Namesrv = Annotated[
    str, "Name servers, host:port;host:port; else those of ROQUET_NAMESRV or NAMESRV_ADDR are asked."
]
Topics = Annotated[tuple[str, ...], "Topics, with commas between."]
Store = Annotated[str, "Read the files of this store instead of asking brokers."]
ArchiveFolder = Annotated[str, "Read this archive (of `roquet pipeline archive`) instead of asking brokers."]
Since = Annotated[
    datetime | None, "Only messages stored then or later: 2026-11-15T10:00 (UTC), or 2h for two hours ago."
]
Until = Annotated[datetime | None, "Only messages stored before then."]
Report = Annotated[str, "Folder for a report with plots: index.html and PNG files."]


def _moment(text: str) -> datetime:
    time: datetime
    try:
        time = opt.TIME.read(text)
    except ValueError:
        time = datetime.now(UTC) - opt.DURATION.read(text)
    return time


def _rate(text: str) -> float:
    value = float(text)
    if value < 0:
        raise ValueError("it must not be negative")
    return value


_KINDS: Final[dict[Any, opt.Kind]] = {
    str: opt.TEXT,
    int: opt.number(0),
    float: opt.Kind("number", _rate),
    bool: opt.SWITCH,
    datetime: opt.Kind("time: 2026-11-15T10:00 (UTC), milliseconds, or 2h for two hours ago", _moment),
    timedelta: opt.DURATION,
    tuple[str, ...]: opt.WORDS,
}


class Argument(NamedTuple):
    """One argument, as both command lines need it."""

    name: str
    kind: opt.Kind
    default: Any
    doc: str

    @property
    def flag(self) -> str:
        return "--" + self.name.rstrip("_").replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """All its names: the one for name servers is as short here as in other commands."""
        return (self.flag, "-n") if self.name == "namesrv" else (self.flag,)

    @property
    def is_switch(self) -> bool:
        return self.kind is opt.SWITCH

    @property
    def is_required(self) -> bool:
        return self.default is opt.REQUIRED


def arguments_of(pipeline: type[Any]) -> tuple[Argument, ...]:
    """Return the arguments of a pipeline, in the order of its fields."""
    hints = get_type_hints(pipeline, include_extras=True)
    found = []
    for field in dataclasses.fields(pipeline):
        kind, doc = get_args(hints[field.name])[:2]
        default = opt.REQUIRED if field.default is dataclasses.MISSING else field.default
        if get_origin(kind) is Literal:
            doc = f"{doc.removesuffix('.')} ({' or '.join(get_args(kind))})."
        found.append(Argument(field.name, _kind(kind), default, doc))
    return tuple(found)


def _kind(hint: Any) -> opt.Kind:
    if get_origin(hint) is Literal:
        return opt.choice(*get_args(hint))
    if hint not in _KINDS:  # `datetime | None`: absent, or a datetime
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return _KINDS[hint]


def build(pipeline: type[Made], given: Mapping[str, str | bool]) -> Made:
    """Return a pipeline with these arguments; what is not given has its default. Raises OptionError."""
    known = {each.name: each for each in arguments_of(pipeline)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        argument = known.get(name)
        if argument is None:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            offer = f": did you mean {known[near[0]].flag}?" if near else ""
            raise opt.OptionError(f"there is no argument --{name.replace('_', '-')}{offer}")
        values[name] = value if isinstance(value, bool) else _read(argument, value)
    for argument in known.values():
        if argument.is_required and not values.get(argument.name):
            raise opt.OptionError(f"{argument.flag} is missing: {argument.doc}")
    return pipeline(**values)


def _read(argument: Argument, text: str) -> Any:
    try:
        return argument.kind.read(text.strip())
    except (ValueError, OverflowError) as error:
        wants = argument.kind.name.replace("\\|", "|")
        raise opt.OptionError(f"{argument.flag} wants {wants}, not {text[:80]!r}: {error}") from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise opt.OptionError(message)


def parse(pipeline: type[Made], texts: Sequence[str]) -> tuple[Made, bool]:
    """Return the pipeline that a command line describes, and whether it asks for JSON; raises OptionError."""
    parser = _Parser(description=pipeline.__doc__, allow_abbrev=False)
    for each in arguments_of(pipeline):
        doc = each.doc.replace("%", "%%")
        if each.is_switch:
            parser.add_argument(each.flag, dest=each.name, action="store_true", default=None, help=doc)
        else:
            parser.add_argument(*each.flags, dest=each.name, default=None, help=doc)
    parser.add_argument("--json", action="store_true", help="Print the summary as one JSON object.")
    found = vars(parser.parse_args(texts))
    as_json = bool(found.pop("json"))
    return build(pipeline, {name: value for name, value in found.items() if value is not None}), as_json
