"""Options of the sources and sinks: declared once, from which parsing, errors and documentation come.

    OPTIONS = Table("roquet", Option("namesrv", Text(), doc="…"), Option("rows", Number(1), 10_000, "…"))
    given = OPTIONS.parse({"NameSrv": "127.0.0.1:9876"})      ▶ given["namesrv"], given["rows"]

Spark gives texts under names without case. An unknown name is an error that offers the nearest right
one; `rocketmq.*` passes through for settings of the client. Pure: no Spark, no network.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

PASS_THROUGH: Final = "rocketmq."
REQUIRED: Final = object()
"""As a default: the option must be given."""


class OptionError(ValueError):
    """An option that is unknown, missing, contradictory or cannot be read; says which."""


class Kind(NamedTuple):
    """How an option's text is read, and how the documentation calls that."""

    name: str
    read: Callable[[str], Any]


class Option(NamedTuple):
    """One row of the table."""

    name: str
    kind: Kind
    default: Any
    doc: str
    used_by: str = "read"
    """read, stream, batch, write or all: where it has a meaning."""
    aliases: tuple[str, ...] = ()


class Table:
    """The options of one format."""

    def __init__(self, format_name: str, *options: Option) -> None:
        self.format_name = format_name
        self.options = options
        self._by_name = {
            name.lower(): option for option in options for name in (option.name, *option.aliases)
        }

    def parse(self, given: Mapping[str, str], *, ignore: Sequence[str] = ("path",)) -> dict[str, Any]:
        """Return every option's value; raises OptionError."""
        values: dict[str, Any] = {}
        named: dict[str, str] = {}
        for name, text in given.items():
            if name.lower().startswith(PASS_THROUGH) or name.lower() in ignore:
                continue
            option = self._by_name.get(name.lower())
            if option is None:
                raise OptionError(self._unknown(name))
            if option.name in values and named[option.name] != name:
                raise OptionError(f"{name} and {named[option.name]} are the same option: give one of them")
            values[option.name], named[option.name] = self._read(option, text), name
        for option in self.options:
            if option.name not in values:
                if option.default is REQUIRED:
                    raise OptionError(f"option {option.name} of {self.format_name} is missing: {option.doc}")
                values[option.name] = option.default
        return values

    def named(self, given: Mapping[str, str]) -> set[str]:
        """Return which options were given, by their own names."""
        found = (self._by_name.get(name.lower()) for name in given)
        return {option.name for option in found if option is not None}

    def passed_through(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of the client, without their prefix."""
        return {
            name[len(PASS_THROUGH) :]: text
            for name, text in given.items()
            if name.lower().startswith(PASS_THROUGH)
        }

    def markdown(self) -> str:
        """Return the table for the documentation."""
        lines = ["| option | value | default | for | meaning |", "|---|---|---|---|---|"]
        for option in self.options:
            default = "(required)" if option.default is REQUIRED else _shown(option.default)
            names = " · ".join(f"`{name}`" for name in (option.name, *option.aliases))
            lines.append(
                f"| {names} | {option.kind.name} | {default} | {option.used_by} | {_cell(option.doc)} |"
            )
        return "\n".join(lines) + "\n"

    def docstring(self) -> str:
        """Return the options as lines of a docstring."""
        return "\n".join(f"    {option.name:<24}{option.doc}" for option in self.options)

    def _unknown(self, name: str) -> str:
        names = [option.name for option in self.options]
        near = difflib.get_close_matches(name.lower(), [other.lower() for other in names], 1, 0.6)
        offer = f"did you mean {next(other for other in names if other.lower() == near[0])}?" if near else ""
        return f"{self.format_name} has no option {name}: {offer or 'it knows ' + ', '.join(names)}"

    def _read(self, option: Option, text: str) -> Any:
        try:
            return option.kind.read(text.strip())
        except (ValueError, KeyError, TypeError) as error:
            wants = f"option {option.name} of {self.format_name} wants {option.kind.name}"
            raise OptionError(f"{wants}, not {text[:80]!r}: {error}") from None


def client_settings(passed: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """Return what goes to the client; raises OptionError for a setting that it does not have."""
    by_name = {name.lower(): name for name in known}
    for name in passed:
        if name.lower() not in by_name:
            near = difflib.get_close_matches(name.lower(), by_name, 1, 0.6)
            offer = f"did you mean {PASS_THROUGH}{near[0]}?" if near else f"it has {', '.join(known)}"
            raise OptionError(f"the client has no setting {PASS_THROUGH}{name}: {offer}")
    return {by_name[name.lower()]: text for name, text in passed.items()}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _shown(default: Any) -> str:
    if default is None or default == () or default == "":
        return ""
    if isinstance(default, timedelta):
        return _shown_duration(default)
    return str(default).lower() if isinstance(default, bool) else str(default)


def _number(text: str, least: int) -> int:
    value = int(text)
    if value < least:
        raise ValueError(f"it must be at least {least}")
    return value


def number(least: int = 0) -> Kind:
    """A whole number."""
    return Kind(f"number ≥ {least}", lambda text: _number(text, least))


def choice(*words: str) -> Kind:
    """One of a few words."""

    def read(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(f"it must be one of {', '.join(words)}")
        return text.lower()

    return Kind(" \\| ".join(words), read)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text.lower() == "true"


def _time(text: str) -> datetime:
    if text.isdecimal():
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    time = datetime.fromisoformat(text)
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def _duration(text: str) -> timedelta:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(digits) :].strip() or "ms"
    if unit not in _UNITS:
        raise ValueError("its unit must be ms, s, m, h or d")
    return timedelta(seconds=float(digits) * _UNITS[unit])


def _shown_duration(duration: timedelta) -> str:
    ms = duration // timedelta(milliseconds=1)
    for unit in ("d", "h", "m", "s"):
        length_ms = int(_UNITS[unit] * 1000)
        if ms and ms % length_ms == 0:
            return f"{ms // length_ms}{unit}"
    return f"{ms}ms"


def _list(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _object(text: str) -> Any:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("it must be a JSON object")
    return value


TEXT: Final = Kind("text", str)
SWITCH: Final = Kind("true \\| false", _switch)
TIME: Final = Kind("milliseconds or ISO time (UTC unless it says otherwise)", _time)
DURATION: Final = Kind("duration: 500ms, 10s, 15m, 2h, 1d", _duration)
WORDS: Final = Kind("names with commas", _list)
OBJECT: Final = Kind("JSON object", _object)
