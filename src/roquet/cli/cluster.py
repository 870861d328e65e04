"""`roquet cluster …`: show, brokers, settings, stats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from roquet.cli.options import DEFAULT_NAMESRV, BrokerName, ClusterName, Json, Namesrv, pairs

if TYPE_CHECKING:
    from roquet.client.admin import Admin

app = typer.Typer(no_args_is_help=True, help="Look at brokers and set them up.")


@app.command()
def show(cluster: ClusterName = "", namesrv: Namesrv = DEFAULT_NAMESRV, json: Json = None) -> None:
    """Show how each broker runs."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    async def act(admin: Admin) -> list[dict[str, Any]]:
        rows = []
        for place in await admin.cluster.list(cluster):
            runtime = await admin.cluster.runtime(place.address)
            rows.append(
                {
                    "cluster": place.cluster,
                    "broker": place.name,
                    "broker_id": place.broker_id,
                    "address": place.address,
                    "version": runtime.version,
                    "in_per_second": runtime.put_tps.seconds_10,
                    "out_per_second": runtime.get_tps.seconds_10,
                    "in_today": runtime.put_today,
                    "out_today": runtime.get_today,
                    "disk": f"{runtime.disk_ratio:.0%}",
                    "booted": runtime.booted,
                }
            )
        return rows

    columns = (
        "broker",
        "broker_id",
        "address",
        "version",
        "in_per_second",
        "out_per_second",
        "disk",
        "booted",
    )
    Printer(json).rows(administer(namesrv, act), columns)


@app.command()
def brokers(cluster: ClusterName = "", namesrv: Namesrv = DEFAULT_NAMESRV, json: Json = None) -> None:
    """List brokers, as the name servers know them."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    found = administer(namesrv, lambda admin: admin.cluster.list(cluster))
    rows = [{**place._asdict(), "role": "master" if place.is_master else "slave"} for place in found]
    Printer(json).rows(rows, ("cluster", "name", "broker_id", "role", "address"))


@app.command()
def settings(
    broker: Annotated[str, typer.Argument(help="Name or host:port of the broker.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="What to change.")
    ] = None,
    grep: Annotated[str, typer.Option("--grep", help="Show only keys that contain this.")] = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Show a broker's settings, or change some while it runs."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    wanted = pairs(changes or (), "KEY=VALUE")

    async def act(admin: Admin) -> dict[str, str]:
        if wanted:
            await admin.cluster.update_settings(wanted, broker=broker)
        return await admin.cluster.settings(broker)

    found = administer(namesrv, act)
    shown = {key: found.get(key, "") for key in wanted} if wanted else found
    rows = [
        {"key": key, "value": value} for key, value in sorted(shown.items()) if grep.lower() in key.lower()
    ]
    Printer(json).rows(rows, ("key", "value"))


@app.command()
def stats(
    name: Annotated[str, typer.Argument(help="A counter: TOPIC_PUT_NUMS, GROUP_GET_NUMS, BROKER_PUT_NUMS …")],
    key: Annotated[str, typer.Argument(help="What it counts for: topic, topic@group, cluster …")],
    broker: BrokerName = "",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Show one counter of each broker over the last minute, hour and day."""
    from roquet.cli.output import Printer
    from roquet.cli.work import administer

    async def act(admin: Admin) -> list[dict[str, Any]]:
        rows = []
        for place in await admin.cluster.list():
            if place.is_master and broker in ("", place.name, place.address):
                lines = await admin.cluster.stats(place.address, name, key)
                for span in ("minute", "hour", "day"):
                    line = getattr(lines, f"stats_{span}")
                    rows.append({"broker": place.name, "span": span, "sum": line.sum, "per_second": line.tps})
        return rows

    Printer(json).rows(administer(namesrv, act))
