"""`roquet topic …`: list, create, update, delete, show, stats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from roquet.cli.confirm import confirm
from roquet.cli.options import DEFAULT_NAMESRV, BrokerName, ClusterName, Json, Namesrv, TopicName, Yes, pairs

if TYPE_CHECKING:
    from roquet.client.admin import Admin

app = typer.Typer(no_args_is_help=True, help="Create, change and look at topics.")

Access = Literal["rw", "r", "w"]
Kind = Literal["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"]
Attributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", metavar="NAME=VALUE", help="An attribute; an empty value takes it away."),
]


@app.command("list")
def list_topics(
    all_: Annotated[
        bool, typer.Option("--all", help="Also retry, dead-letter and the servers' topics.")
    ] = False,
    cluster: ClusterName = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """List topics."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    async def act(admin: Admin) -> list[dict[str, str]]:
        system = set(await admin.topics.list_system())
        rows = [
            {"topic": name, "kind": _kind(name, system)} for name in await admin.topics.list(cluster=cluster)
        ]
        return [row for row in rows if all_ or row["kind"] == "topic"]

    rows = administer(namesrv, act)
    Printer(json).rows(rows, ("topic", "kind") if all_ else ("topic",))


def _kind(name: str, system: set[str]) -> str:
    from roquet.model.names import is_dead_letter, is_retry, is_system

    if is_retry(name):
        return "retry"
    if is_dead_letter(name):
        return "dead letters"
    return "system" if name in system or is_system(name) or name.endswith("_REPLY_TOPIC") else "topic"


@app.command()
def create(
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    queues: Annotated[int, typer.Option(help="Queues on each broker.", min=1)] = 8,
    access: Annotated[Access, typer.Option(help="What clients may do.")] = "rw",
    kind: Annotated[Kind, typer.Option(help="Kind of its messages (5.0 and later).")] = "NORMAL",
    ordered: Annotated[bool, typer.Option("--ordered", help="Mark it as ordered.")] = False,
    attribute: Attributes = None,
    cluster: ClusterName = "",
    broker: BrokerName = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Create a topic on every master."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    attributes = pairs(attribute or (), "--attribute")

    async def act(admin: Admin) -> list[str]:
        await admin.topics.create(
            topic,
            queues=queues,
            access=access,
            kind=kind,
            ordered=ordered,
            attributes=attributes,
            cluster=cluster,
            broker=broker,
        )
        return sorted(await admin.topics.get(topic, cluster=cluster, broker=broker))

    brokers = administer(namesrv, act)
    Printer(json).done(
        f"Created {topic} with {queues} queues on {', '.join(brokers)}.",
        topic=topic,
        queues=queues,
        brokers=brokers,
    )


@app.command()
def update(
    topic: TopicName,
    queues: Annotated[int | None, typer.Option(help="Queues on each broker.", min=0)] = None,
    read_queues: Annotated[int | None, typer.Option(help="Queues to read from.", min=0)] = None,
    write_queues: Annotated[int | None, typer.Option(help="Queues to write to.", min=0)] = None,
    access: Annotated[Access | None, typer.Option(help="What clients may do.")] = None,
    ordered: Annotated[bool | None, typer.Option("--ordered/--unordered", help="Mark it as ordered.")] = None,
    attribute: Attributes = None,
    broker: BrokerName = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Change what is given of a topic and leave the rest as it is."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    attributes = pairs(attribute or (), "--attribute")

    async def act(admin: Admin) -> None:
        await admin.topics.update(
            topic,
            queues=queues,
            read_queues=read_queues,
            write_queues=write_queues,
            access=access,
            ordered=ordered,
            attributes=attributes,
            broker=broker,
        )

    administer(namesrv, act)
    Printer(json).done(f"Changed {topic}.", topic=topic)


@app.command()
def delete(
    topic: TopicName,
    yes: Yes = False,
    cluster: ClusterName = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Delete a topic with all its messages."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    confirm(f"Delete {topic} with all its messages?", yes)

    async def act(admin: Admin) -> None:
        await admin.topics.get(topic, cluster=cluster)  # says so when there is no such topic
        await admin.topics.delete(topic, cluster=cluster)

    administer(namesrv, act)
    Printer(json).done(f"Deleted {topic}.", topic=topic)


@app.command()
def show(topic: TopicName, namesrv: Namesrv = DEFAULT_NAMESRV, json: Json = None) -> None:
    """Show a topic's settings on each broker, and who consumes it."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer
    from roquet.client.admin.topics import access_of

    async def act(admin: Admin) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        settings = await admin.topics.get(topic)
        rows = [
            {
                "topic": topic,
                "broker": broker,
                "read_queues": each.read_queue_nums,
                "write_queues": each.write_queue_nums,
                "access": access_of(each.perm),
                "ordered": each.order,
                "attributes": dict(each.attributes),
            }
            for broker, each in sorted(settings.items())
        ]
        return rows, await admin.topics.groups(topic)

    rows, groups = administer(namesrv, act)
    printer = Printer(json)
    if printer.is_json:
        printer.rows([{**row, "groups": groups} for row in rows])
        return
    columns = ("broker", "read_queues", "write_queues", "access", "ordered", "attributes")
    printer.rows(rows, columns, title=topic)
    print(f"Consumed by: {', '.join(groups) or 'nobody'}")


@app.command()
def stats(topic: TopicName, namesrv: Namesrv = DEFAULT_NAMESRV, json: Json = None) -> None:
    """Show what each queue of a topic holds."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    found = administer(namesrv, lambda admin: admin.topics.stats(topic))
    rows = [
        {
            "topic": topic,
            "broker": each.queue.broker_name,
            "queue_id": each.queue.queue_id,
            "min_offset": each.min_offset,
            "max_offset": each.max_offset,
            "messages": each.messages,
            "last_time": each.last_time,
        }
        for each in found.queues
    ]
    printer = Printer(json)
    printer.rows(
        rows,
        ("broker", "queue_id", "min_offset", "max_offset", "messages", "last_time"),
        title=f"{topic}: {found.messages:,} messages, {found.put_tps:.1f}/s",
    )
