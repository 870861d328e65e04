"""`roquet message …`: get by id, by key, by time, by offset; resend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roquet.cli.complete import topics
from roquet.cli.options import DEFAULT_NAMESRV, Json, Namesrv, TopicName, moment, now, queue_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roquet.client.admin import Admin
    from roquet.client.message import Message, Receipt

app = typer.Typer(no_args_is_help=True, help="Find single messages.")

Max = Annotated[int, typer.Option("--max", help="How many at most.", min=1)]
MessageId = Annotated[
    str, typer.Argument(help="Its id: where it lies, or with --topic what its producer gave.")
]
OfTopic = Annotated[str, typer.Option("--topic", help="Topic of the message.", autocompletion=topics)]


@app.command()
def get(
    message_id: MessageId, topic: OfTopic = "", namesrv: Namesrv = DEFAULT_NAMESRV, json: Json = None
) -> None:
    """Show the message with an id."""
    from roquet.cli.output import Printer, message_row
    from roquet.cli.work import administer

    found = administer(namesrv, lambda admin: admin.messages.get(message_id, topic))
    Printer(json).one(message_row(found))


@app.command()
def key(
    topic: TopicName,
    key_: Annotated[str, typer.Argument(metavar="KEY", help="One of the message's keys.")],
    max_: Max = 64,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Show messages that carry a key."""
    from roquet.cli.work import administer

    _show(administer(namesrv, lambda admin: admin.messages.by_key(topic, key_, max=max_)), json)


@app.command()
def time(
    topic: TopicName,
    begin: Annotated[str, typer.Option("--from", help="A time, or how long ago: 10:30, 2h.")] = "1h",
    end: Annotated[str, typer.Option("--to", help="The same; now when not given.")] = "",
    max_: Max = 64,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Show messages that were stored within a time."""
    from roquet.cli.work import administer

    here = now()
    first, last = moment(begin, here), moment(end, here) if end else here
    _show(administer(namesrv, lambda admin: admin.messages.by_time(topic, first, last, max=max_)), json)


@app.command()
def offset(
    topic: TopicName,
    queue: Annotated[str, typer.Argument(help="The queue, as broker/number.")],
    offset_: Annotated[int, typer.Argument(metavar="OFFSET", help="Where to begin in it.", min=0)],
    max_: Max = 32,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Show messages of one queue from an offset on."""
    from roquet.cli.work import administer

    place = queue_name(queue, topic)
    _show(administer(namesrv, lambda admin: admin.messages.by_offset(place, offset_, max=max_)), json)


@app.command()
def resend(
    message_id: MessageId,
    topic: OfTopic = "",
    to: Annotated[str, typer.Option("--to", help="Another topic than its own.", autocompletion=topics)] = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Send a stored message again, to its own topic or another one."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    async def act(admin: Admin) -> Receipt:
        return await admin.messages.resend(await admin.messages.get(message_id, topic), to)

    receipt = administer(namesrv, act)
    Printer(json).rows([receipt._asdict()], ("topic", "broker", "queue_id", "queue_offset", "offset_id"))


def _show(messages: Sequence[Message], json: bool | None) -> None:
    from roquet.cli.output import Printer
    from roquet.cli.work import REFUSED

    printer = Printer(json)
    for message in messages:
        printer.message(message)
    if not messages:
        typer.echo("roquet: no message was found", err=True)
        raise typer.Exit(REFUSED)
