"""`roquet group …`: list, create, update, delete, show, lag, reset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roquet.cli.complete import topics
from roquet.cli.confirm import confirm
from roquet.cli.options import (
    DEFAULT_NAMESRV,
    BrokerName,
    ClusterName,
    GroupName,
    Json,
    Namesrv,
    Yes,
    moment,
    now,
    queue_name,
)

if TYPE_CHECKING:
    from roquet.client.admin import Admin
    from roquet.client.admin.offsets import Progress, Target
    from roquet.model.route import QueueName

app = typer.Typer(no_args_is_help=True, help="Create, change and look at consumer groups.")

Attempts = Annotated[int | None, typer.Option("--max-attempts", help="Retries before a dead letter.", min=0)]
Consume = Annotated[bool | None, typer.Option("--consume/--no-consume", help="Whether it may consume.")]
Broadcast = Annotated[
    bool | None, typer.Option("--broadcast/--no-broadcast", help="Whether it may broadcast.")
]
Ordered = Annotated[bool | None, typer.Option("--ordered/--unordered", help="Whether it consumes in order.")]


@app.command("list")
def list_groups(
    all_: Annotated[bool, typer.Option("--all", help="Also the servers' own groups.")] = False,
    cluster: ClusterName = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """List consumer groups."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    found = administer(namesrv, lambda admin: admin.groups.list(cluster=cluster, system=all_))
    Printer(json).rows([{"group": name} for name in found], ("group",))


@app.command()
def create(
    group: Annotated[str, typer.Argument(help="Name of the consumer group.")],
    max_attempts: Attempts = 16,
    consume: Consume = True,
    broadcast: Broadcast = True,
    ordered: Ordered = False,
    cluster: ClusterName = "",
    broker: BrokerName = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Create a group on every master."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    async def act(admin: Admin) -> None:
        await admin.groups.create(
            group,
            max_attempts=16 if max_attempts is None else max_attempts,
            consume=consume is not False,
            broadcast=broadcast is not False,
            ordered=bool(ordered),
            cluster=cluster,
            broker=broker,
        )

    administer(namesrv, act)
    Printer(json).done(f"Created {group}.", group=group)


@app.command()
def update(
    group: GroupName,
    max_attempts: Attempts = None,
    consume: Consume = None,
    broadcast: Broadcast = None,
    ordered: Ordered = None,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Change what is given of a group and leave the rest as it is."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    async def act(admin: Admin) -> None:
        await _check_known(admin, group)
        await admin.groups.update(
            group, max_attempts=max_attempts, consume=consume, broadcast=broadcast, ordered=ordered
        )

    administer(namesrv, act)
    Printer(json).done(f"Changed {group}.", group=group)


@app.command()
def delete(
    group: GroupName,
    keep_offsets: Annotated[bool, typer.Option("--keep-offsets", help="Leave its positions.")] = False,
    keep_letters: Annotated[bool, typer.Option("--keep-letters", help="Leave its dead letters.")] = False,
    yes: Yes = False,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Delete a group with its positions, retries and dead letters."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    confirm(f"Delete the group {group}?", yes)

    async def act(admin: Admin) -> None:
        await _check_known(admin, group)
        await admin.groups.delete(group, keep_offsets=keep_offsets, keep_letters=keep_letters)

    administer(namesrv, act)
    Printer(json).done(f"Deleted {group}.", group=group)


async def _check_known(admin: Admin, group: str) -> None:
    """Refuse a group that no broker has; asking for its settings alone might create it."""
    from roquet.client.errors import NotFound

    if group not in await admin.groups.list(system=True):
        raise NotFound(
            f"no broker has the group {group}", hint=f"create it with `roquet group create {group}`"
        )


@app.command()
def show(group: GroupName, namesrv: Namesrv = DEFAULT_NAMESRV, json: Json = None) -> None:
    """Show a group's settings, its live members, and whether they agree."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer
    from roquet.client.errors import NotFound

    async def act(admin: Admin) -> dict[str, Any]:
        await _check_known(admin, group)
        settings = await admin.groups.get(group)
        first = next(iter(settings.values()))
        shown: dict[str, Any] = {
            "group": group,
            "brokers": sorted(settings),
            "may_consume": first.consume_enable,
            "max_attempts": first.retry_max_times,
            "ordered": first.consume_message_orderly,
            "members": [],
            "subscriptions": {},
            "conflicts": {},
        }
        try:
            live = await admin.clients.consumers(group)
            conflicts = await admin.clients.conflicts(group)
        except NotFound:
            return shown
        return shown | {
            "consume_type": live.consume_type,
            "message_model": live.message_model,
            "members": [each._asdict() for each in live.connections],
            "subscriptions": {topic: each.sub_string for topic, each in live.subscriptions.items()},
            "conflicts": {topic: [view._asdict() for view in views] for topic, views in conflicts.items()},
        }

    shown = administer(namesrv, act)
    printer = Printer(json)
    if printer.is_json:
        printer.line(shown)
        return
    members, conflicts = shown.pop("members"), shown.pop("conflicts")
    shown["subscriptions"] = [f"{topic}: {wish}" for topic, wish in shown["subscriptions"].items()]
    printer.one(shown)
    printer.rows(members, ("client_id", "address", "language", "version"), title="Members")
    for topic, views in conflicts.items():
        printer.rows(views, title=f"Members do not agree on {topic}")


@app.command()
def lag(
    group: GroupName,
    topic: Annotated[str, typer.Option("--topic", help="Only this topic.", autocompletion=topics)] = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Show how far a group is behind in each queue."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    async def act(admin: Admin) -> Progress:
        await _check_known(admin, group)
        return await admin.offsets.progress(group, topic)

    found = administer(namesrv, act)
    rows = [
        {
            "group": group,
            "topic": each.queue.topic,
            "broker": each.queue.broker_name,
            "queue_id": each.queue.queue_id,
            "broker_offset": each.broker_offset,
            "consumer_offset": each.consumer_offset,
            "lag": each.lag,
            "in_flight": each.in_flight,
            "last_time": each.last_time,
        }
        for each in found.queues
    ]
    columns = (
        "topic",
        "broker",
        "queue_id",
        "broker_offset",
        "consumer_offset",
        "lag",
        "in_flight",
        "last_time",
    )
    Printer(json).rows(rows, columns, title=f"{group}: {found.lag:,} behind, {found.consume_tps:.1f}/s")


@app.command()
def reset(
    group: GroupName,
    topic: Annotated[str, typer.Argument(help="Name of the topic.", autocompletion=topics)],
    to: Annotated[str, typer.Option("--to", help="earliest, latest, or a time: 2026-11-15T10:00, 2h.")] = "",
    queue: Annotated[str, typer.Option("--queue", help="Only this queue, as broker/number.")] = "",
    offset: Annotated[
        int | None, typer.Option("--offset", help="With --queue: its new offset.", min=0)
    ] = None,
    yes: Yes = False,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Move a group in a topic: to a time, to an end, or one queue to an offset."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    if bool(queue) != (offset is not None) or bool(to) == bool(queue):
        raise typer.BadParameter("say --to, or --queue together with --offset")
    target: Target | None = None
    if to:
        target = "earliest" if to == "earliest" else "latest" if to == "latest" else moment(to, now())
    place = queue_name(queue, topic) if queue else None
    confirm(f"Move {group} in {topic}?", yes)

    async def act(admin: Admin) -> dict[QueueName, int]:
        await _check_known(admin, group)
        if place is not None:
            assert offset is not None
            return {place: await admin.offsets.reset_queue(group, place, offset)}
        assert target is not None
        return await admin.offsets.reset(group, topic, target)

    rows = [
        {"group": group, "topic": topic, "broker": each.broker_name, "queue_id": each.queue_id, "offset": at}
        for each, at in administer(namesrv, act).items()
    ]
    Printer(json).rows(rows, ("broker", "queue_id", "offset"), title=f"{group} in {topic}")
