"""Apache's name server and broker for a capture: fixed ports, own settings, files below one folder.

First link of the capture chain. Unlike `tests.peers.apache` it never talks to the servers that it starts, so
nothing but the capture itself shows in their answers and stores; and it can stop or crash a broker and start
it again on the same store. Jars and processes come from `tests.peers`.
"""

from collections.abc import Mapping
from pathlib import Path

from tests.peers import jars
from tests.peers.child import Child
from tests.peers.ports import accepts

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0

# The smallest files that still show every roll-over: 64 KiB of log, 100 queue entries, 400 index entries.
SMALL_FILES = {
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",
    "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}


def java(home: Path, heap_mib: int) -> list[str]:
    """Return how a command line begins: a small JVM with Apache's jars that keeps its files below `home`."""
    home.mkdir(parents=True, exist_ok=True)
    memory = [
        f"-Xmx{heap_mib}m",
        "-XX:MaxDirectMemorySize=512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
    ]
    places = [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"]
    return [jars.java(), *memory, *places, *jars.OPENS, "-cp", jars.apache_classpath()]


def _start(main: str, home: Path, port: int, host: str, settings: Mapping[str, str]) -> Child:
    home.mkdir(parents=True, exist_ok=True)
    conf = home / "server.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    child = Child(main, [*java(home, 384), main, "-c", str(conf)], home / "server.out")
    try:
        # Only the word in its output: a connection of ours would show in what the server counts.
        child.wait_until(lambda: "boot success" in child.text(), "its boot message", START_TIMEOUT_S)
        child.wait_until(lambda: accepts(f"{host}:{port}"), f"listening on {port}", START_TIMEOUT_S)
    except BaseException:
        child.kill()
        raise
    return child


def start_names(home: Path, port: int) -> Child:
    """Start a name server on 127.0.0.1."""
    settings = {"listenPort": str(port), "bindAddress": "127.0.0.1"}
    return _start("org.apache.rocketmq.namesrv.NamesrvStartup", home, port, "127.0.0.1", settings)


def start_broker(
    home: Path, names: str, port: int, settings: Mapping[str, str], host: str = "127.0.0.1"
) -> Child:
    """Start a master whose store is `home/store`; it binds to `host` and calls itself that."""
    values = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "brokerIP1": host.strip("[]"),
        "brokerIP2": host.strip("[]"),
        "bindAddress": host.strip("[]"),
        "namesrvAddr": names,
        "listenPort": str(port),
        "haListenPort": str(port + 1),
        "storePathRootDir": str(home / "store"),
        "storePathCommitLog": str(home / "store" / "commitlog"),
        # A capture must not depend on how full the disk of the machine is.
        "diskMaxUsedSpaceRatio": "95",
        **settings,
    }
    return _start("org.apache.rocketmq.broker.BrokerStartup", home, port, host, values)
