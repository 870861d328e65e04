"""Options that several commands share, and how their values are read.

    duration   90s · 5m · 1h30m · 2d · 250ms
    time       2026-11-15T10:00 · 10:30 · 2h (ago) · 1794735670216 (milliseconds)

Times without a zone are local. Nothing here is slow to import: the parsers are plain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

from roquet.cli.complete import groups, topics
from roquet.model.route import QueueName

DEFAULT_NAMESRV: Final = "127.0.0.1:9876"

_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")

Namesrv = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrv",
        envvar=["ROQUET_NAMESRV", "NAMESRV_ADDR"],
        help="Name servers: host:port;host:port",
        show_envvar=True,
    ),
]
Json = Annotated[
    bool | None,
    typer.Option(
        "--json/--table", help="JSON lines, or a table; by default JSON when piped.", show_default=False
    ),
]
TopicName = Annotated[str, typer.Argument(help="Name of the topic.", autocompletion=topics)]
GroupName = Annotated[str, typer.Argument(help="Name of the consumer group.", autocompletion=groups)]
ClusterName = Annotated[str, typer.Option("--cluster", help="Only in this cluster.")]
BrokerName = Annotated[str, typer.Option("--broker", help="Only at this broker: its name or host:port.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def duration(text: str) -> timedelta:
    """Return the length of time that a text means; raises BadParameter."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.replace(" ", ""):
        raise typer.BadParameter(f"{text!r} is no duration: write 90s, 5m, 1h30m, 2d or 250ms")
    return sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta())


def moment(text: str, now: datetime) -> datetime:
    """Return the time that a text means: a date, a time of today, how long ago, or milliseconds."""
    if text.isdecimal():
        return datetime.fromtimestamp(int(text) / (1000 if len(text) > 11 else 1), UTC)
    if _PART.match(text):
        return now - duration(text)
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            clock = datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M")
            return now.astimezone().replace(
                hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0
            )
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time: write 2026-11-15T10:00, 10:30, or 2h for two hours ago"
        ) from None


def now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


def pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return the names and values of `name=value` texts; raises BadParameter."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{option} {text!r}: expected name=value")
        found[name] = value
    return found


def queue_name(text: str, topic: str) -> QueueName:
    """Return the queue that `broker/number` names; raises BadParameter."""
    broker, slash, number = text.rpartition("/")
    if not slash or not broker or not number.isdecimal():
        raise typer.BadParameter(f"queue {text!r}: expected broker/number, such as broker-a/0")
    return QueueName(broker, int(number), topic)
