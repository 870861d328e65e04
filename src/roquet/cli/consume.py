"""`roquet consume` as a member of a group, and `roquet tail` as nobody: both print what comes.

`consume` takes its share of the group's messages and acknowledges them, unless told not to. `tail` follows
every queue of a topic without a group: it changes nothing and sees everything.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from roquet.cli.complete import groups
from roquet.cli.options import DEFAULT_NAMESRV, Json, Namesrv, TopicName, duration, moment, now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from roquet.client.core.subscription import Expression
    from roquet.client.message import Message

From = Annotated[str, typer.Option("--from", help="earliest, latest, or a time: 2026-11-15T10:00, 2h (ago).")]
Max = Annotated[int | None, typer.Option("--max", help="Stop after so many.", min=1)]
Tag = Annotated[str, typer.Option("--tag", help="Only these tags: 'created || paid'.")]
SqlText = Annotated[str, typer.Option("--sql", help="Only what this SQL92 expression says: 'amount > 10'.")]
Wait = Annotated[str, typer.Option("--wait", help="Stop when nothing came for so long: 5s.")]


def consume(
    topic: TopicName,
    group: Annotated[str, typer.Option("--group", "-g", help="Consumer group.", autocompletion=groups)],
    tag: Tag = "",
    sql: SqlText = "",
    start: From = "latest",
    max_: Max = None,
    wait: Wait = "",
    ack: Annotated[
        bool, typer.Option("--ack/--no-ack", help="Acknowledge what was printed, or leave it to the group.")
    ] = True,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Consume messages of a topic as a member of a group, and print them."""
    from roquet.cli.work import run
    from roquet.client.consumer.consumer import Consumer

    consumer_start, subscribe = _start(start), {topic: _expression(tag, sql)}
    seconds = duration(wait).total_seconds() if wait else None

    async def work() -> None:
        async with Consumer(namesrv, group=group, subscribe=subscribe, start=consumer_start) as consumer:
            await _print(aiter(consumer), max_, seconds, json, ack=ack)

    run(work())


def tail(
    topic: TopicName,
    tag: Tag = "",
    sql: SqlText = "",
    start: From = "latest",
    max_: Max = None,
    wait: Wait = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Follow a topic without being a member of any group."""
    from roquet.cli.work import run
    from roquet.client.reader.reader import Reader

    reader_start = _start(start)
    _expression(tag, sql)
    seconds = duration(wait).total_seconds() if wait else None

    async def work() -> None:
        async with Reader(namesrv) as reader:
            messages = reader.follow(topic, start=reader_start, tags=tag or "*", sql=sql or None)
            await _print(aiter(messages), max_, seconds, json, ack=False)

    run(work())


def _start(text: str) -> Literal["earliest", "latest"] | datetime:
    if text == "earliest" or text == "latest":
        return "earliest" if text == "earliest" else "latest"
    return moment(text, now())


def _expression(tag: str, sql: str) -> Expression:
    from roquet.client.core.subscription import Sql

    if tag and sql:
        raise typer.BadParameter("say --tag or --sql, not both")
    return Sql(sql) if sql else tag or "*"


async def _print(
    messages: AsyncIterator[Message], max_: int | None, wait_s: float | None, json: bool | None, *, ack: bool
) -> None:
    """Print messages until there were enough, or nothing came for a while."""
    import asyncio

    from roquet.cli.output import Printer

    printer = Printer(json)
    shown = 0
    while max_ is None or shown < max_:
        try:
            async with asyncio.timeout(wait_s):
                message = await anext(messages)
        except (StopAsyncIteration, TimeoutError):
            return
        printer.message(message)
        shown += 1
        if ack:
            await message.ack()
