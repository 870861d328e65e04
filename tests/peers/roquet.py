"""Roquet as a process of its own, started by its command line like any user does.

`start_up` runs name server and broker in one process; `start_namesrv` and `start_broker` run them apart.
Ready means that the program has printed its line that begins with `ready`. `stop` is SIGTERM, `kill` is
SIGKILL: the crash that the store must survive. The same store directory can be started again. `command` is
what stands for the program `roquet`: a tracer before it, say, or a Python that changes something first.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.peers.child import Child
from tests.peers.jars import MissingTool
from tests.peers.ports import free_broker_port, free_port

READY_TIMEOUT_S = 120.0
NO_SETTINGS: Mapping[str, str] = {}

# A test must not depend on how full the disk of the machine is.
ANY_DISK = {
    "diskMaxUsedSpaceRatio": "100",
    "diskSpaceCleanForciblyRatio": "100",
    "diskSpaceWarningLevelRatio": "100",
}


class RoquetNode(NamedTuple):
    """A running Roquet: its process, and the addresses of its name server and its broker."""

    process: Child
    namesrv: str
    broker: str

    def stop(self) -> None:
        status = self.process.stop()
        assert status == 0, f"{self.process.name} ended with status {status}\n{self.process.tail()}"

    def kill(self) -> None:
        self.process.kill()


def start_up(
    store: Path,
    namesrv_port: int | None = None,
    broker_port: int | None = None,
    settings: Mapping[str, str] = NO_SETTINGS,
    command: Sequence[str] = (),
) -> RoquetNode:
    """Start name server and broker in one process (`roquet up`) and wait until both are ready."""
    names = free_port() if namesrv_port is None else namesrv_port
    broker = free_broker_port() if broker_port is None else broker_port
    words = ["up", "--store", str(store), "--namesrv-port", str(names), "--broker-port", str(broker)]
    argv = [*(command or program()), *words, *_set({**ANY_DISK, **settings})]
    process = launch("roquet up", argv, store.with_name(f"{store.name}.out"))
    return RoquetNode(process, f"127.0.0.1:{names}", f"127.0.0.1:{broker}")


def start_namesrv(
    folder: Path, port: int | None = None, settings: Mapping[str, str] = NO_SETTINGS
) -> RoquetNode:
    """Start a name server alone (`roquet namesrv`); its `broker` address is empty."""
    listen = free_port() if port is None else port
    kept = {"kvConfigPath": str(folder / "kvConfig.json"), **settings}
    argv = [*program(), "namesrv", "--port", str(listen), *_set(kept)]
    return RoquetNode(launch("roquet namesrv", argv, folder / "namesrv.out"), f"127.0.0.1:{listen}", "")


def start_broker(
    store: Path, namesrv: str, port: int | None = None, settings: Mapping[str, str] = NO_SETTINGS
) -> RoquetNode:
    """Start a broker alone (`roquet broker`) that registers with this name server, ours or Apache's."""
    listen = free_broker_port() if port is None else port
    own = {"storePathRootDir": str(store), "listenPort": str(listen)}
    argv = [*program(), "broker", "--namesrv", namesrv, *_set({**ANY_DISK, **own, **settings})]
    process = launch("roquet broker", argv, store.with_name(f"{store.name}.out"))
    return RoquetNode(process, namesrv, f"127.0.0.1:{listen}")


def _set(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def program() -> list[str]:
    """Return the command `roquet` of the environment that the tests run in."""
    path = Path(sys.executable).with_name("roquet")
    if not path.exists():
        raise MissingTool(f"{path} is missing: run `pip install -e .` in this environment")
    return [str(path)]


def launch(name: str, argv: Sequence[str], log: Path) -> Child:
    """Start a program of Roquet's and wait until it is ready."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)  # an earlier start of the same store has left its line there
    process = Child(name, argv, log, {"PYTHONUNBUFFERED": "1"})
    try:
        process.wait_until(lambda: is_ready(process.text()), "its line `ready`", READY_TIMEOUT_S)
    except BaseException:
        process.kill()
        raise
    return process


def is_ready(text: str) -> bool:
    """Say whether a program has printed its line that begins with `ready`."""
    return any(line.startswith("ready") for line in text.splitlines())
