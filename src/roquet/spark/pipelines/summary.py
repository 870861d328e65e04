"""What a pipeline says: a live line while it works, and a summary of rows, bytes, time and what was skipped.

Results go to stdout and nothing else does; the live line and notes go to stderr. On a terminal the line is
written over, elsewhere it comes as a plain line now and then, so that a log of a cluster shows progress too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TextIO

from roquet.ports import Clock
from roquet.runtime.clock import RealClock

PLAIN_EVERY_S: Final = 10.0
"""How often the line is printed where it cannot be written over."""
ROWS_SHOWN: Final = 30

Row = Mapping[str, Any]


class Refused(RuntimeError):
    """What a user asked for cannot be done; one sentence that says why."""


class Live:
    """The live line."""

    def __init__(self, stream: TextIO | None = None, clock: Clock | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = RealClock() if clock is None else clock
        self._began = self._clock.monotonic()
        self._said: float | None = None
        self._is_open = False
        self._line = self._more = ""
        self.is_watched = False
        """The work looks now and then whether it shall stop."""
        self.is_stopping = False

    @property
    def seconds(self) -> float:
        """How long the work takes so far."""
        return self._clock.monotonic() - self._began

    def stop(self) -> None:
        """Ask the work to end; raises KeyboardInterrupt when it does not look, and the second time."""
        if self.is_stopping or not self.is_watched:
            raise KeyboardInterrupt
        self.is_stopping = True

    def say(self, line: str) -> None:
        """Show where the work is; the next line takes its place."""
        self._line = line
        self._show(f"{line}{self._more}")

    def beat(self, more: str) -> None:
        """Show the line once more with how far it has come, if there is one; may come from another thread."""
        self._more = f" · {more}" if more else ""
        if self._line:
            self._show(f"{self._line}{self._more}")

    def _show(self, line: str) -> None:
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[2K{line}")
            self._is_open = True
        elif self._said is None or self.seconds - self._said >= PLAIN_EVERY_S:
            self._said = self.seconds
            self._stream.write(f"{line}\n")
        self._stream.flush()

    def note(self, sentence: str) -> None:
        """Say something that stays."""
        self.clear()
        self._stream.write(f"{sentence}\n")
        self._stream.flush()

    def clear(self) -> None:
        """Take the line away."""
        self._line = ""
        if self._is_open:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._is_open = False


@dataclass(slots=True)
class Summary:
    """The end of a pipeline."""

    pipeline: str
    rows: int = 0
    size_bytes: int = 0
    seconds: float = 0.0
    skipped: dict[str, int] = field(default_factory=dict)
    """Why, and how many messages; reasons with none are not shown."""
    facts: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    """Reports that were written."""

    def skip(self, reason: str, count: int) -> None:
        """Count messages that were left out."""
        if count:
            self.skipped[reason] = self.skipped.get(reason, 0) + count

    def as_json(self) -> str:
        """Return all of it as one line."""
        found = {
            "pipeline": self.pipeline,
            "rows": self.rows,
            "bytes": self.size_bytes,
            "seconds": round(self.seconds, 3),
            "skipped": self.skipped,
            **self.facts,
            **{name: [dict(row) for row in rows] for name, rows in self.tables.items()},
            "files": self.files,
        }
        return json.dumps(found, default=_plain, ensure_ascii=False)

    def as_text(self) -> str:
        """Return it for people: tables, then facts, and the sums at the end."""
        parts = [f"{title(name)}\n{table(rows)}" for name, rows in self.tables.items()]
        facts = [f"{title(name)}: {shown(value)}" for name, value in self.facts.items()]
        if facts:
            parts.append("\n".join(facts))
        rate = f", {self.rows / self.seconds:,.0f}/s" if self.rows and self.seconds else ""
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in self.skipped.items()) or "nothing"
        ends = [
            f"{self.pipeline}: {self.rows:,} messages, {size(self.size_bytes)}, {self.seconds:.1f} s{rate}",
            f"skipped: {skipped}",
            *(f"report: {path}" for path in self.files),
        ]
        return "\n\n".join([*parts, "\n".join(ends)])


def title(name: str) -> str:
    """Return a name as people read it."""
    return name.replace("_", " ")


def table(rows: Sequence[Row], most: int = ROWS_SHOWN) -> str:
    """Return rows as text in columns; the rest is counted."""
    if not rows:
        return "  none"
    names = list(rows[0])
    cells = [[title(name) for name in names]]
    cells += [[shown(row.get(name)) for name in names] for row in rows[:most]]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    is_right = [all(_is_number(row.get(name)) for row in rows) for name in names]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_right, strict=True)
        ).rstrip()
        for line in cells
    ]
    if len(rows) > most:
        lines.append(f"… and {len(rows) - most:,} more")
    return "\n".join(f"  {line}" for line in lines)


def shown(value: object) -> str:
    """Return a value for people; a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    # Names and keys come from messages: they must not steer the terminal of who looks at them.
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def size(size_bytes: float) -> str:
    """Return a number of bytes in a unit that suits it."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:,.0f} {unit}" if unit == "B" else f"{size_bytes:,.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:,.1f} TiB"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
