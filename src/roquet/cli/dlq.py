"""`roquet dlq …`: list, peek, replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roquet.cli.complete import topics
from roquet.cli.options import DEFAULT_NAMESRV, GroupName, Json, Namesrv

if TYPE_CHECKING:
    from roquet.client.admin import Admin

app = typer.Typer(no_args_is_help=True, help="Dead letters: what groups gave up.")


@app.command("list")
def list_groups(namesrv: Namesrv = DEFAULT_NAMESRV, json: Json = None) -> None:
    """List groups with dead letters."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    found = administer(namesrv, lambda admin: admin.dead_letters.groups())
    rows = [{"group": each.group, "letters": each.letters, "not_replayed": each.waiting} for each in found]
    Printer(json).rows(rows, ("group", "letters", "not_replayed"))


@app.command()
def peek(
    group: GroupName,
    max_: Annotated[int, typer.Option("--max", help="How many at most.", min=1)] = 10,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest ones, not the newest.")] = False,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Show dead letters of a group; they stay where they are."""
    from roquet.cli.output import Printer
    from roquet.cli.work import REFUSED, administer

    found = administer(namesrv, lambda admin: admin.dead_letters.peek(group, max=max_, newest=not oldest))
    printer = Printer(json)
    for message in found:
        printer.message(message)
    if not found:
        typer.echo(f"roquet: {group} has no dead letters", err=True)
        raise typer.Exit(REFUSED)


@app.command()
def replay(
    group: GroupName,
    max_: Annotated[int | None, typer.Option("--max", help="How many at most.", min=1)] = None,
    to: Annotated[
        str, typer.Option("--to", help="Another topic than they came from.", autocompletion=topics)
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Also those that were replayed before.")] = False,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Send dead letters again to the topic they first came from, each once."""
    from roquet.cli.output import Printer, progress
    from roquet.cli.work import administer

    printer = Printer(json)

    async def act(admin: Admin) -> int:
        counted = await admin.dead_letters.count(group)
        total = counted.letters if again else counted.waiting
        sent = 0
        with progress(f"Replaying {group}", total if max_ is None else min(max_, total)) as bar:
            async for each in admin.dead_letters.replay(group, topic=to, again=again, max=max_):
                sent += 1
                bar.advance()
                if printer.is_json:
                    printer.line({**each.receipt._asdict(), "letter": each.letter.offset_id})
        return sent

    sent = administer(namesrv, act)
    if not printer.is_json:
        print(f"Replayed {sent:,} dead letters of {group}.")
