"""The `roquet` command: programs to start, and daily work with a cluster.

    up · namesrv · broker        run until SIGTERM or Ctrl-C; print a line `ready …` once they serve
    send · consume · tail        messages
    topic · group · message · dlq · cluster · bench      administration, each in a file of its own
    pipeline                     work with Spark

Commands import what they need when they run: `roquet version` and `roquet up` stay quick. Nothing here
knows how a broker or a client works.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from roquet import __version__
from roquet.cli import bench, cluster, consume, dlq, group, message, pipeline, send, topic

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Roquet: a message queue compatible with Apache RocketMQ.",
)

Bind = Annotated[str | None, typer.Option("--bind", help="Address to listen on (default 127.0.0.1).")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one key of the settings."),
]


@app.command()
def up(
    store: Annotated[Path, typer.Option(help="Folder that keeps the messages.")] = Path("data"),
    namesrv_port: Annotated[int, typer.Option(help="Port of the name server.")] = 9876,
    broker_port: Annotated[int, typer.Option(help="Port of the broker.")] = 10911,
    bind: Bind = None,
    set_: Sets = None,
) -> None:
    """Start a name server and a broker in one process."""
    from roquet.cli.serve import serve_up

    raise typer.Exit(serve_up(store, namesrv_port, broker_port, bind, set_ or [], os.environ))


@app.command()
def namesrv(
    port: Annotated[int | None, typer.Option(help="Port to listen on (default 9876).")] = None,
    config: Annotated[Path | None, typer.Option("-c", "--config", help="Apache's namesrv.conf.")] = None,
    bind: Bind = None,
    set_: Sets = None,
) -> None:
    """Start a name server."""
    from roquet.cli.serve import serve_names

    raise typer.Exit(serve_names(port, config, bind, set_ or [], os.environ))


@app.command()
def broker(
    config: Annotated[Path | None, typer.Option("-c", "--config", help="Apache's broker.conf.")] = None,
    names: Annotated[
        str | None, typer.Option("-n", "--namesrv", help="Name servers: host:port;host:port")
    ] = None,
    bind: Bind = None,
    set_: Sets = None,
) -> None:
    """Start a broker."""
    from roquet.cli.serve import serve_broker

    raise typer.Exit(serve_broker(config, names, bind, set_ or [], os.environ))


@app.command()
def version() -> None:
    """Print the version, and which kernels are compiled."""
    from roquet.cli.kernels import kernels

    print(f"roquet {__version__} · Python {sys.version.split()[0]} · wire and store of Apache RocketMQ 5.5.0")
    for name, is_compiled in kernels().items():
        print(f"  {name:<10} {'compiled' if is_compiled else 'plain Python'}")


app.command()(send.send)
app.command()(consume.consume)
app.command()(consume.tail)
for _name, _part in {
    "topic": topic,
    "group": group,
    "message": message,
    "dlq": dlq,
    "cluster": cluster,
    "bench": bench,
    "pipeline": pipeline,
}.items():
    app.add_typer(_part.app, name=_name)


def main() -> None:
    """Run the command that the arguments name."""
    app()


if __name__ == "__main__":
    main()
