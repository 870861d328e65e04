"""What commands print: tables for people at a terminal, JSON lines for programs.

    terminal, or --table   a table, sized to the terminal      piped, or --json   one JSON object a line

Results go to stdout and nothing else does; progress, notes and errors go to stderr. A reader that goes away
(`roquet tail orders | head`) ends the command quietly.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from roquet.client.message import Message

Row = Mapping[str, Any]

BAR_FROM: Final = 100
"""Steps from which work is long enough for a bar."""


class Progress(Protocol):
    """A bar that is moved forward."""

    def advance(self, steps: int = 1) -> None: ...


class Printer:
    """Prints results in one of the two forms."""

    def __init__(self, as_json: bool | None) -> None:
        """`as_json` None lets the terminal decide."""
        self.is_json = not sys.stdout.isatty() if as_json is None else as_json

    def rows(self, rows: Iterable[Row], columns: Sequence[str] = (), title: str = "") -> None:
        """Print rows; `columns` says which members a table shows and in which order."""
        listed = list(rows)
        if self.is_json:
            for row in listed:
                self.line(row)
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        shown = columns or list(listed[0] if listed else ())
        table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, title_style="bold")
        for name in shown:
            values = [row.get(name) for row in listed]
            table.add_column(
                name.replace("_", " "),
                justify="right" if listed and all(map(_is_number, values)) else "left",
                overflow="fold",
                no_wrap=any(isinstance(value, datetime) for value in values),
            )
        for row in listed:
            table.add_row(*(Text(_cell(row.get(name))) for name in shown))
        Console().print(table if listed else f"{title}\nnone".strip())

    def one(self, row: Row, title: str = "") -> None:
        """Print one thing: a line of JSON, or its members below each other."""
        if self.is_json:
            self.line(row)
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        grid.title = title or None
        for name, value in row.items():
            grid.add_row(name.replace("_", " "), Text(_cell(value)))
        Console().print(grid)

    def line(self, row: Row) -> None:
        """Print one line of JSON at once."""
        sys.stdout.write(msgspec.json.encode(row, enc_hook=str).decode() + "\n")
        sys.stdout.flush()

    def message(self, message: Message, *, brief: bool = False) -> None:
        """Print a message: all of it as JSON, or a line for people."""
        if self.is_json:
            self.line(message_row(message))
            return
        from rich.console import Console
        from rich.text import Text

        text = Text()
        text.append(f"{message.store_time.astimezone():%H:%M:%S.%f}"[:12], style="dim")
        text.append(f" {message.broker}/{message.queue_id}@{message.queue_offset} ", style="cyan")
        if message.tag:
            text.append(f"[{printable(message.tag)}] ", style="green")
        if message.keys:
            text.append(f"{printable(','.join(message.keys))} ", style="yellow")
        text.append(_body_text(message.body))
        if not brief:
            text.append(f"  {printable(message.message_id)}", style="dim")
        Console(soft_wrap=True, highlight=False).print(text)

    def done(self, sentence: str, **members: object) -> None:
        """Say that something was done: a sentence for people, its members for programs."""
        if self.is_json:
            self.line({"done": True, **members})
        else:
            print(sentence, flush=True)


def progress(what: str, total: int | None) -> AbstractContextManager[Progress]:
    """Return a bar on stderr for long work; silent when it is short, or stderr is no terminal."""
    if not sys.stderr.isatty() or (total is not None and total < BAR_FROM):
        return nullcontext(_Silent())
    from roquet.cli.bar import Bar

    return Bar(what, total)


class _Silent:
    def advance(self, steps: int = 1) -> None:
        pass


def message_row(message: Message) -> dict[str, Any]:
    """Return a message as a JSON object; a body that is not text is in `body_base64`."""
    body = message.body
    row: dict[str, Any] = {
        "topic": message.topic,
        "message_id": message.message_id,
        "offset_id": message.offset_id,
        "broker": message.broker,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "tag": message.tag,
        "keys": message.keys,
        "attempt": message.attempt,
        "born_time": message.born_time,
        "store_time": message.store_time,
        "properties": dict(message.properties),
    }
    try:
        row["body"] = body.decode()
    except UnicodeDecodeError:
        row["body_base64"] = base64.b64encode(body).decode()
    return row


def when(time: datetime | None) -> str:
    """Return a time for people, in their zone; a dash for none."""
    return "-" if time is None else f"{time.astimezone():%Y-%m-%d %H:%M:%S}"


def printable(text: str) -> str:
    """Return a text without control characters: a message must not steer the terminal of who looks at it."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def _body_text(body: bytes) -> str:
    try:
        return printable(body.decode())
    except UnicodeDecodeError:
        return f"<{len(body)} bytes> {body[:32].hex(' ')}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return when(value)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return printable(", ".join(f"{name}={each}" for name, each in value.items()))
    if isinstance(value, list | tuple):
        return printable(", ".join(map(str, value)))
    return printable(str(value))
