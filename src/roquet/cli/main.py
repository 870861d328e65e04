"""`roquet up`, `roquet namesrv`, `roquet broker`, `roquet version`.

Reads flags, asks `runtime.settings` to make settings of them, and runs the programs until SIGTERM or
Ctrl-C. Each command prints one line that begins with `ready` once it serves. Nothing here knows how a
broker works.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from roquet import __version__

app = typer.Typer(
    add_completion=False,
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
        print(f"  {name:<8} {'compiled' if is_compiled else 'plain Python'}")


def main() -> None:
    """Run the command that the arguments name."""
    app()


if __name__ == "__main__":
    main()
