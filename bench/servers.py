"""The name server and the broker that are measured: Apache's, Roquet's, and Roquet without its kernels.

Each program runs in a process of its own, and all brokers read the same broker.conf (`BROKER_CONF`):
asynchronous flush, Apache's default file sizes. Apache's JVM gets the flags of its own runbroker.sh with
the sizes brought down from 8 GiB to what fits beside a client on a small machine, and without
AlwaysPreTouch, which would count the whole heap as used: both choices are in Apache's favour where memory
and start are compared. Reference: distribution/bin/runbroker.sh, runserver.sh and tools.sh, 5.5.0.
"""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tests.peers import jars
from tests.peers.child import Child
from tests.peers.ports import accepts, free_broker_port, free_port

GIB = 1 << 30
NAMES_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 90.0
LOG_FILE_SIZE_BYTES = GIB

BROKER_CONF = {
    "brokerClusterName": "DefaultCluster",
    "brokerName": "broker-a",
    "brokerId": "0",
    "bindAddress": "127.0.0.1",
    "brokerIP1": "127.0.0.1",
    "brokerIP2": "127.0.0.1",
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": str(LOG_FILE_SIZE_BYTES),
    "mappedFileSizeConsumeQueue": str(300_000 * 20),
    "maxHashSlotNum": str(5_000_000),
    "maxIndexNum": str(20_000_000),
    "diskMaxUsedSpaceRatio": "95",
}

BROKER_JVM = [
    *("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:G1HeapRegionSize=2m", "-XX:G1ReservePercent=25"),
    *("-XX:InitiatingHeapOccupancyPercent=30", "-XX:SoftRefLRUPolicyMSPerMB=0"),
    *("-XX:-OmitStackTraceInFastThrow", "-XX:MaxDirectMemorySize=2g", "-XX:-UseLargePages"),
]
NAMES_JVM = ["-server", "-Xms256m", "-Xmx256m", "-XX:+UseG1GC"]


class Target(Enum):
    """Who is measured."""

    APACHE = "apache"
    ROQUET = "roquet"
    PURE = "pure"


class Names(NamedTuple):
    process: Child
    address: str


class Broker(NamedTuple):
    """A broker that has been started and may not be ready yet."""

    process: Child
    address: str


def start_names(target: Target, home: Path) -> Names:
    """Start a name server and wait until it accepts connections."""
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    conf = _write(home / "namesrv.conf", {"listenPort": str(port), "bindAddress": "127.0.0.1"})
    if target is Target.APACHE:
        argv = _java(NAMES_JVM, home, "org.apache.rocketmq.namesrv.NamesrvStartup", conf)
    else:
        argv = [_roquet(), "namesrv", "-c", str(conf)]
    process = Child(f"name server of {target.value}", argv, home / "namesrv.out", environment(target))
    address = f"127.0.0.1:{port}"
    try:
        process.wait_until(lambda: accepts(address), f"listening on {address}", NAMES_TIMEOUT_S)
    except BaseException:
        process.kill()
        raise
    return Names(process, address)


def launch_broker(target: Target, home: Path, store: Path, namesrv: str) -> Broker:
    """Start a broker and return at once: the caller finds out when it is ready."""
    home.mkdir(parents=True, exist_ok=True)
    port = free_broker_port()
    own = {"listenPort": str(port), "namesrvAddr": namesrv, "storePathRootDir": str(store)}
    conf = _write(home / "broker.conf", {**BROKER_CONF, **own})
    if target is Target.APACHE:
        argv = _java(BROKER_JVM, home, "org.apache.rocketmq.broker.BrokerStartup", conf)
    else:
        argv = [_roquet(), "broker", "-c", str(conf)]
    process = Child(f"broker of {target.value}", argv, home / "broker.out", environment(target))
    return Broker(process, f"127.0.0.1:{port}")


def environment(target: Target) -> dict[str, str]:
    """Return what decides between the compiled kernels and their twins, whatever our own environment says."""
    return {"ROQUET_PURE": "1" if target is Target.PURE else "0"}


def warm_page_cache() -> None:
    """Read every jar once, so that the first start of a JVM is not slower than the next."""
    for jar in jars.apache_classpath().split(os.pathsep):
        Path(jar).read_bytes()


def _java(flags: list[str], home: Path, main: str, conf: Path) -> list[str]:
    places = [
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        f"-Drmq.logback.configurationFile={jars.LOGBACK}",
        "-Djava.net.preferIPv4Stack=true",
    ]
    classpath = jars.apache_classpath()
    return [jars.java(), *flags, *places, *jars.OPENS, "-cp", classpath, main, "-c", str(conf)]


def _roquet() -> str:
    program = Path(sys.executable).with_name("roquet")
    if not program.exists():
        raise jars.MissingTool(f"{program} is missing: run `make setup`")
    return str(program)


def _write(file: Path, settings: dict[str, str]) -> Path:
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file
