"""`roquet send`: one message, many copies of it, or one for each line of a file.

roquet send orders '{"id": 42}' --tag created --key 42          roquet send orders - < body.bin
roquet send orders --lines < many.txt --batch 100               roquet send orders hi --delay 10m
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from roquet.cli.options import DEFAULT_NAMESRV, Json, Namesrv, TopicName, duration, moment, now, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roquet.client.message import Outgoing, Receipt
    from roquet.client.producer.producer import Producer

COLUMNS: Final = ("topic", "broker", "queue_id", "queue_offset", "message_id", "status")
AT_ONCE: Final = 64
"""Messages under way at the same time when there are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to send, and how."""

    topic: str
    bodies: Iterator[bytes]
    total: int | None
    batch: int = 1
    how: dict[str, Any] = field(default_factory=dict)


def send(
    topic: TopicName,
    body: Annotated[str | None, typer.Argument(help="The body; - reads it from stdin.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Read the body from a file.", exists=True)
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a message of its own.")] = False,
    tag: Annotated[str, typer.Option("--tag", help="Consumers choose by it.")] = "",
    key: Annotated[list[str] | None, typer.Option("--key", help="A word to find it by.")] = None,
    property_: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="Travels with it.")
    ] = None,
    delay: Annotated[str, typer.Option("--delay", help="Deliver it so much later: 90s, 5m, 1h30m.")] = "",
    at: Annotated[str, typer.Option("--at", help="Deliver it then: 2026-11-15T10:00 or 10:30.")] = "",
    count: Annotated[int, typer.Option("--count", help="Send it so many times.", min=1)] = 1,
    batch: Annotated[int, typer.Option("--batch", help="So many in one request.", min=1)] = 1,
    ordering_key: Annotated[
        str | None, typer.Option("--ordering-key", help="Equal keys go to the same queue, in order.")
    ] = None,
    group: Annotated[str, typer.Option("--group", help="Name of the producer group.")] = "roquet-cli",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Send messages."""
    if delay and at:
        raise typer.BadParameter("say --delay or --at, not both")
    how: dict[str, Any] = {
        "tag": tag,
        "keys": tuple(key or ()),
        "properties": pairs(property_ or (), "--property"),
        "ordering_key": ordering_key,
        "delay": duration(delay) if delay else None,
        "deliver_at": _later(at) if at else None,
    }
    if batch > 1 and (delay or at):
        raise typer.BadParameter("messages of a batch have no delay: send them without --batch")
    order = Order(
        topic=topic,
        bodies=_bodies(body, file, lines, count),
        total=None if lines else count,
        batch=batch,
        how=how,
    )
    _send(order, namesrv, group, json)


def _later(text: str) -> datetime:
    """Return a time; one of today that is over means tomorrow's."""
    found = moment(text, now())
    return found + timedelta(days=1) if ":" in text and len(text) < 9 and found < now() else found


def _bodies(body: str | None, file: Path | None, lines: bool, count: int) -> Iterator[bytes]:
    """Return the bodies one after another; raises BadParameter unless there is one source."""
    if body not in (None, "-") and file is not None:
        raise typer.BadParameter("give BODY or --file, not both")
    if body is None and file is None and sys.stdin.isatty():
        raise typer.BadParameter("give a BODY, --file, or - and the body on stdin")
    if lines:
        return _lines(file)
    if file is not None:
        data = file.read_bytes()
    elif body is None or body == "-":
        data = sys.stdin.buffer.read()
    else:
        data = body.encode()
    return iter([data] * count)


def _lines(file: Path | None) -> Iterator[bytes]:
    if file is None:
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return
    with file.open("rb") as stream:
        yield from (line.rstrip(b"\r\n") for line in stream)


def _send(order: Order, namesrv: str, group: str, json: bool | None) -> None:
    import asyncio

    from roquet.cli.output import Printer, progress
    from roquet.cli.work import run
    from roquet.client.message import Outgoing
    from roquet.client.producer.producer import Producer

    printer = Printer(json)
    sent: list[Receipt] = []

    async def post(producer: Producer, part: list[Outgoing]) -> list[Receipt]:
        if order.batch > 1:
            return await producer.send_batch(order.topic, part)
        return await asyncio.gather(*(producer.send(order.topic, each.body, **order.how) for each in part))

    async def work() -> None:
        size = order.batch if order.batch > 1 else 1 if order.how["ordering_key"] else AT_ONCE
        async with Producer(namesrv, group=group) as producer:
            with progress(f"Sending to {order.topic}", order.total) as bar:
                while part := [
                    Outgoing(topic=order.topic, body=body, **order.how) for body in islice(order.bodies, size)
                ]:
                    for receipt in await post(producer, part):
                        sent.append(receipt)
                        bar.advance()
                        if printer.is_json:
                            printer.line(receipt._asdict())

    run(work())
    if not printer.is_json:
        if len(sent) <= 10:
            printer.rows([each._asdict() for each in sent], COLUMNS)
        else:
            print(f"Sent {len(sent):,} messages to {order.topic}.")
