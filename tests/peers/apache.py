"""A real Apache RocketMQ name server and broker, started from Apache's own jars.

Each gets a directory of its own: configuration, store and logs (`user.home` and `rocketmq.home.dir` point
there). All listen on 127.0.0.1. The heap is small and the files of the store are small: enough for tests,
quick to create. Reference: org.apache.rocketmq.namesrv.NamesrvStartup and
org.apache.rocketmq.broker.BrokerStartup, release 5.5.0.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.peers import jars
from tests.peers.asking import ask, is_registered
from tests.peers.child import Child
from tests.peers.ports import accepts, free_broker_port, free_port

START_TIMEOUT_S = 60.0
MIB = 1 << 20
UPDATE_BROKER_CONFIG = 25

SMALL_STORE = {
    "mappedFileSizeCommitLog": str(64 * MIB),
    "mappedFileSizeConsumeQueue": str(6_000 * 20),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
    "timerWheelEnable": "true",
    "diskMaxUsedSpaceRatio": "99",
}


class ApacheNode(NamedTuple):
    """A running server: its process, where it listens, and where its files are."""

    process: Child
    address: str
    home: Path

    def stop(self) -> None:
        self.process.stop()

    def kill(self) -> None:
        self.process.kill()


def start_namesrv(
    home: Path, port: int | None = None, settings: Mapping[str, str] | None = None
) -> ApacheNode:
    """Start an Apache name server and wait until it accepts connections."""
    listen = free_port() if port is None else port
    conf = {"listenPort": str(listen), "bindAddress": "127.0.0.1", **(settings or {})}
    process = _launch("org.apache.rocketmq.namesrv.NamesrvStartup", "namesrv", home, conf, heap_mib=128)
    address = f"127.0.0.1:{listen}"
    process.wait_until(lambda: accepts(address), f"listening on {address}", START_TIMEOUT_S)
    return ApacheNode(process, address, home)


def start_broker(
    home: Path,
    namesrv: str,
    port: int | None = None,
    store: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> ApacheNode:
    """Start an Apache broker and wait until it listens and has registered with the name server.

    `settings` are keys of Apache's broker.conf and win over ours; the store is `home/store` unless given.
    """
    listen = free_broker_port() if port is None else port
    conf = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": "0",
        "listenPort": str(listen),
        "bindAddress": "127.0.0.1",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "namesrvAddr": namesrv,
        "storePathRootDir": str(store or home / "store"),
        **SMALL_STORE,
        **(settings or {}),
    }
    process = _launch("org.apache.rocketmq.broker.BrokerStartup", "broker", home, conf, heap_mib=384)
    address = f"127.0.0.1:{listen}"
    process.wait_until(lambda: accepts(address), f"listening on {address}", START_TIMEOUT_S)
    process.wait_until(lambda: _registers(namesrv, address), f"registered with {namesrv}", START_TIMEOUT_S)
    return ApacheNode(process, address, home)


def _registers(namesrv: str, broker: str) -> bool:
    """Say whether the broker is in the name server's list, and ask it to register when it is not.

    A broker that looked for its name server a moment too early tries again only after ten seconds; setting
    its permission, even to what it is, makes it register at once.
    """
    if is_registered(namesrv, broker):
        return True
    ask(broker, UPDATE_BROKER_CONFIG, body=b"brokerPermission=6\n")
    return is_registered(namesrv, broker)


def java_flags(home: Path, heap_mib: int) -> list[str]:
    """Return the flags of a small JVM that keeps all its files below `home`."""
    return [
        f"-Xms{heap_mib // 2}m",
        f"-Xmx{heap_mib}m",
        "-XX:MaxDirectMemorySize=1g",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-Djava.net.preferIPv4Stack=true",
        f"-Duser.home={home}",
        f"-Drocketmq.home.dir={home}",
        f"-Drmq.logback.configurationFile={jars.LOGBACK}",
        *jars.OPENS,
    ]


def _launch(main: str, name: str, home: Path, conf: Mapping[str, str], heap_mib: int) -> Child:
    home.mkdir(parents=True, exist_ok=True)
    file = home / f"{name}.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
    argv = [jars.java(), *java_flags(home, heap_mib), "-cp", jars.apache_classpath(), main, "-c", str(file)]
    return Child(f"Apache {name}", argv, home / f"{name}.out")
