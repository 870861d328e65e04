"""Kinds of values in configuration files: how each is read, checked and written.

A kind turns text into the value of a settings field and back, and can say in words what it allows. It
knows neither keys nor files: `config` adds those to its messages. Booleans and numbers follow Java's
reading where a working file depends on it (`True`, surrounding blanks), and are stricter where Java
would quietly take a typing error for `false`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from enum import Enum
from typing import Any, NamedTuple, Protocol

from roquet.runtime.settings import Endpoint
from roquet.store.settings import parse_delay_levels

_HOST = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9._-]{0,252}[a-zA-Z0-9])?")
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_DELAY_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
PORT_MAX = 65_535


class Kind(Protocol):
    """How values of one kind are read and written."""

    @property
    def allowed(self) -> str:
        """Return what may stand there, in words that follow "allowed: "."""

    def read(self, text: str) -> Any:
        """Return the value; raises ValueError when it is not allowed."""

    def write(self, value: Any) -> str:
        """Return the text that `read` turns into the value."""


class Flag:
    """true or false."""

    allowed = "true, false"

    def read(self, text: str) -> bool:
        word = text.lower()
        if word not in ("true", "false"):
            raise ValueError
        return word == "true"

    def write(self, value: bool) -> str:
        return "true" if value else "false"


class Number(NamedTuple):
    """A whole number between two bounds, in a unit."""

    low: int
    high: int
    unit: str = ""
    clamp: bool = False  # as Apache does for a few keys: a value outside counts as the nearest bound

    @property
    def allowed(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        return f"a whole number from {self.low} to {self.high}{unit}"

    def read(self, text: str) -> int:
        if not _NUMBER.fullmatch(text):
            raise ValueError
        value = int(text)
        if self.clamp:
            return min(max(value, self.low), self.high)
        if not self.low <= value <= self.high:
            raise ValueError
        return value

    def write(self, value: int) -> str:
        return str(value)


class Choice(NamedTuple):
    """One member of an enumeration, by its Java name."""

    options: type[Enum]

    @property
    def allowed(self) -> str:
        return ", ".join(str(option.value) for option in self.options)

    def read(self, text: str) -> Enum:
        return self.options(text)

    def write(self, value: Enum) -> str:
        return str(value.value)


class Name(NamedTuple):
    """A name that is safe as a topic, a group and a folder."""

    length_max: int = 127

    @property
    def allowed(self) -> str:
        return f"1 to {self.length_max} of the characters a-z A-Z 0-9 _ - % |"

    def read(self, text: str) -> str:
        if not re.fullmatch(r"[%|a-zA-Z0-9_-]+", text) or len(text) > self.length_max:
            raise ValueError
        return text

    def write(self, value: str) -> str:
        return value


class Path:
    """A file or folder; a leading ~ is the home folder."""

    allowed = "one absolute path, or one that begins with ~"

    def read(self, text: str) -> str:
        path = os.path.expanduser(text)
        # A comma would be a list of folders to Apache.
        if not os.path.isabs(path) or not path.isprintable() or "," in path:
            raise ValueError
        return os.path.normpath(path)

    def write(self, value: str) -> str:
        return value


class Address:
    """An IP address or host name, without a port."""

    allowed = "an IP address or a host name"

    def read(self, text: str) -> str:
        return text if _HOST.fullmatch(text) else str(ipaddress.ip_address(text))

    def write(self, value: str) -> str:
        return value


class Endpoints:
    """Hosts with ports, separated by semicolons."""

    allowed = "host:port, several separated by ;"

    def read(self, text: str) -> tuple[Endpoint, ...]:
        return tuple(self._one(part.strip()) for part in text.split(";") if part.strip())

    def _one(self, text: str) -> Endpoint:
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = str(ipaddress.IPv6Address(host[1:-1]))
        elif not _HOST.fullmatch(host):
            raise ValueError
        if not (colon and port.isdecimal() and 0 < int(port) <= PORT_MAX):
            raise ValueError
        return Endpoint(host, int(port))

    def write(self, value: tuple[Endpoint, ...]) -> str:
        return ";".join(map(str, value))


class Hours:
    """Hours of the day, separated by semicolons: 04 or 04;16."""

    allowed = "hours from 00 to 23, several separated by ;"

    def read(self, text: str) -> tuple[int, ...]:
        hours = tuple(int(part) for part in text.split(";") if part.strip())
        if not hours or not all(0 <= hour <= 23 for hour in hours):
            raise ValueError
        return hours

    def write(self, value: tuple[int, ...]) -> str:
        return ";".join(f"{hour:02d}" for hour in value)


class DelayLevels:
    """Delays of the levels 1, 2, …: 1s 5s 10s 1m 2h."""

    allowed = "delays such as 1s 5s 10s 1m 2h 1d, separated by blanks"

    def read(self, text: str) -> tuple[int, ...]:
        levels = parse_delay_levels(text)
        if not levels:
            raise ValueError
        return levels

    def write(self, value: tuple[int, ...]) -> str:
        return " ".join(self._one(delay_ms) for delay_ms in value)

    def _one(self, delay_ms: int) -> str:
        letter, unit_ms = next(unit for unit in _DELAY_UNITS if delay_ms % unit[1] == 0)
        return f"{delay_ms // unit_ms}{letter}"
