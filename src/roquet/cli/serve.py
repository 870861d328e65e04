"""Run the programs: settings in, `ready` out, and a clean stop on SIGTERM or Ctrl-C.

The composition root of the process: the only place that makes the real ports. Mistakes of the operator
(a bad value, a port that is taken, a store that somebody else holds) become one sentence on stderr and
the exit code 1; nothing else is caught.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from roquet.broker.app import Broker
from roquet.names.app import NameServer
from roquet.ports import Ports
from roquet.runtime import config
from roquet.runtime.addresses import plan_addresses, route_ip
from roquet.runtime.config import Note, Severity
from roquet.runtime.descriptors import descriptor_limit, queue_files_max
from roquet.runtime.logs import BadLogLevel, set_up
from roquet.runtime.loop import run
from roquet.runtime.real import real_ports
from roquet.runtime.settings import BrokerSettings, Endpoint
from roquet.store.segments import StoreDamaged
from roquet.store.settings import StoreSettings

Program = Callable[[asyncio.Event, Ports], Coroutine[Any, Any, None]]


def serve_up(
    store: Path,
    namesrv_port: int,
    broker_port: int,
    bind: str | None,
    sets: Sequence[str],
    env: Mapping[str, str],
) -> int:
    """Run a name server and a broker in one process."""

    def prepare() -> Program:
        root = str(store.absolute())
        names, names_notes = config.load_names(
            "",
            env,
            (),
            _given(
                listenPort=str(namesrv_port),
                bindAddress=bind,
                kvConfigPath=f"{root}/namesrv/kvConfig.json",
            ),
        )
        local = Endpoint(
            {None: "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind or ""), namesrv_port
        )
        broker, store_settings, notes = _load_broker(
            None,
            env,
            sets,
            _given(
                listenPort=str(broker_port),
                bindAddress=bind,
                storePathRootDir=root,
                namesrvAddr=str(local),
            ),
        )

        async def program(stop: asyncio.Event, ports: Ports) -> None:
            name_server = NameServer(names, ports)
            await name_server.start()
            try:
                node = make_broker(broker, store_settings, ports)
                await node.start()
                try:
                    say_ready("up", name_server.addresses + node.addresses)
                    print(_welcome(name_server.addresses[0], node.addresses[0], root), flush=True)
                    await stop.wait()
                finally:
                    await node.close()
            finally:
                await name_server.close()

        _say(names_notes + notes)
        return program

    return _serve(prepare, env)


def serve_names(
    port: int | None, path: Path | None, bind: str | None, sets: Sequence[str], env: Mapping[str, str]
) -> int:
    """Run a name server."""

    def prepare() -> Program:
        flags = _given(listenPort=None if port is None else str(port), bindAddress=bind)
        settings, notes = config.load_names(str(path or ""), env, sets, flags)
        _say(notes)

        async def program(stop: asyncio.Event, ports: Ports) -> None:
            server = NameServer(settings, ports)
            await server.start()
            try:
                say_ready("namesrv", server.addresses)
                await stop.wait()
            finally:
                await server.close()

        return program

    return _serve(prepare, env)


def serve_broker(
    path: Path | None, names: str | None, bind: str | None, sets: Sequence[str], env: Mapping[str, str]
) -> int:
    """Run a broker."""

    def prepare() -> Program:
        flags = _given(namesrvAddr=names, bindAddress=bind)
        settings, store_settings, notes = _load_broker(path, env, sets, flags)
        _say(notes)

        async def program(stop: asyncio.Event, ports: Ports) -> None:
            node = make_broker(settings, store_settings, ports)
            await node.start()
            try:
                say_ready("broker", node.addresses)
                await stop.wait()
            finally:
                await node.close()

        return program

    return _serve(prepare, env)


def _load_broker(
    path: Path | None, env: Mapping[str, str], sets: Sequence[str], flags: Mapping[str, str]
) -> config.BrokerConfig:
    """Read the settings; without a file of its own, what was changed while running is in the store."""
    found = config.load_broker(str(path or ""), env, sets, flags)
    kept = f"{found.store.root_dir}/config/broker.properties"
    if path is None and os.path.exists(kept):
        return config.load_broker(kept, env, sets, flags)
    return found


def make_broker(settings: BrokerSettings, store_settings: StoreSettings, ports: Ports) -> Broker:
    """Return a broker that listens and advertises as the settings and this host allow."""
    route = ""
    for name_server in settings.namesrv_addresses:
        try:
            route = route_ip(name_server)
            break
        except OSError as error:
            _say([Note(Severity.WARNING, f"no route to the name server {name_server}: {error}")])
    addresses = plan_addresses(settings, route)
    _say([Note(Severity.INFO, text) for text in addresses.notes])
    settings = replace(settings, broker_ip1=addresses.advertise)
    wanted = store_settings.open_queue_files_max
    queue_files = queue_files_max(descriptor_limit(), wanted)
    if queue_files < wanted:
        text = f"{queue_files} queue files are kept open, not {wanted}: for more raise `ulimit -n`"
        _say([Note(Severity.INFO, text)])
    store_settings = replace(store_settings, open_queue_files_max=queue_files)
    return Broker(settings, store_settings, addresses, ports, os.getpid())


def say_ready(what: str, addresses: Sequence[tuple[str, int]]) -> None:
    """Print the one line that scripts wait for."""
    print(f"ready {what} on {' '.join(f'{host}:{port}' for host, port in addresses)}", flush=True)


def _serve(prepare: Callable[[], Program], env: Mapping[str, str]) -> int:
    try:
        set_up(env)
        program = prepare()

        async def main(stop: asyncio.Event) -> None:
            await program(stop, real_ports())

        run(main)
    except (BadLogLevel, config.BadSettings, StoreDamaged, OSError) as error:
        print(f"roquet: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _given(**flags: str | None) -> dict[str, str]:
    """Return the flags that were given, by their keys in the configuration file."""
    return {key: value for key, value in flags.items() if value is not None}


def _say(notes: Sequence[Note]) -> None:
    for note in notes:
        print(f"roquet: {note.severity.value}: {note.text}", file=sys.stderr, flush=True)


def _welcome(names: tuple[str, int], broker: tuple[str, int], root: str) -> str:
    return f"""
  Name server  {names[0]}:{names[1]}      point RocketMQ clients here
  Broker       {broker[0]}:{broker[1]}
  Messages in  {root}

  Send a first message and see it arrive, from another terminal:
    roquet send -n {names[0]}:{names[1]} hello "Hello, Roquet!"
    roquet tail -n {names[0]}:{names[1]} hello --from earliest
  The README shows a first send and receive from Python and from Java. Stop with Ctrl-C.
"""
