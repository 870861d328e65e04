"""Logs of the programs: one line for each record, on stderr.

    2025-11-15T08:52:01.123Z INFO  roquet.broker.registration registered with 127.0.0.1:9876

ROQUET_LOG chooses the level: `debug`, or `info,roquet.store=debug` for one part alone. What comes from
outside (names, error texts of peers) cannot break a line or move the terminal's cursor: control
characters are escaped. `OncePer` keeps a fault that repeats from filling the disk.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from roquet.ports import Clock

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
REMEMBERED_MAX = 1024  # kinds of lines that one OncePer tells apart; more than any program has

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))}
_ESCAPES[ord("\n")] = " | "
_ESCAPES[ord("\t")] = " "


class BadLogLevel(ValueError):
    """ROQUET_LOG cannot be understood."""


class OneLine(logging.Formatter):
    """Formats a record, traceback included, as a single line in UTC."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-5s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).translate(_ESCAPES)


def set_up(env: Mapping[str, str], stream: TextIO | None = None) -> None:
    """Send all records to `stream` (stderr), with the levels of ROQUET_LOG; raises BadLogLevel."""
    levels = read_levels(env.get("ROQUET_LOG", ""))
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(OneLine())
    logging.addLevelName(logging.WARNING, "WARN")
    root = logging.getLogger()
    root.handlers[:] = [handler]
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def read_levels(text: str) -> dict[str, int]:
    """Read `info,roquet.store=debug` into levels by logger name; "" is the root logger."""
    levels = {"": logging.INFO}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, level = part.rpartition("=")
        if level.strip().lower() not in LEVELS:
            raise BadLogLevel(f"ROQUET_LOG: {level!r} is not a level; use one of {', '.join(LEVELS)}")
        levels[name.strip()] = LEVELS[level.strip().lower()]
    return levels


class OncePer:
    """Lets the same line through at most once in `seconds`, and counts what it held back."""

    __slots__ = ("_clock", "_seconds", "_seen")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._seen: dict[str, tuple[float, int]] = {}  # text → (when it passed, held back since)

    def log(self, logger: logging.Logger, level: int, text: str, *args: object) -> bool:
        """Log `text % args` unless the same `text` passed a short while ago; return whether it passed."""
        now = self._clock.monotonic()
        passed_at, held_back = self._seen.pop(text, (now - self._seconds, 0))
        if now - passed_at < self._seconds:
            self._seen[text] = (passed_at, held_back + 1)
            return False
        if len(self._seen) >= REMEMBERED_MAX:
            del self._seen[next(iter(self._seen))]
        self._seen[text] = (now, 0)
        if held_back:
            logger.log(level, text + " (and %d more like it since)", *args, held_back)
        else:
            logger.log(level, text, *args)
        return True
