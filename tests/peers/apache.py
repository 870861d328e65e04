"""A real Apache RocketMQ name server and broker, started from Apache's own jars.

Each gets a directory of its own: configuration, store and logs (`user.home` and `rocketmq.home.dir` point
there). All listen on 127.0.0.1. The heap is small and the files of the store are small: enough for tests,
quick to create. Reference: org.apache.rocketmq.namesrv.NamesrvStartup and
org.apache.rocketmq.broker.BrokerStartup, release 5.5.0.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.peers import jars
from tests.peers.asking import ask, is_registered
from tests.peers.child import Child
from tests.peers.ports import accepts, free_broker_port, free_port

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0
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
    store: Path

    def stop(self) -> None:
        """End it in order, as far as its files go, and then at once.

        A broker closes its store last of all and then takes away the file `abort`; after that it only waits,
        for several seconds, until its own connections are closed.
        """
        self.process.send(signal.SIGTERM)
        self.process.wait_until_gone(self.store / "abort", STOP_TIMEOUT_S)
        self.process.kill()

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
    with _killed_on_error(process):
        process.wait_until(lambda: accepts(address), f"listening on {address}", START_TIMEOUT_S)
    return ApacheNode(process, address, home, home / "store")


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
        # So long its thread for these figures takes a whole core after the start: ten seconds by default.
        "transactionMetricFlushInterval": "200",
        # On a busy machine it refuses what has waited for 200 ms, and all when a write has taken a second.
        "brokerFastFailureEnable": "false",
        "osPageCacheBusyTimeOutMills": "60000",
        **SMALL_STORE,
        **(settings or {}),
    }
    process = _launch("org.apache.rocketmq.broker.BrokerStartup", "broker", home, conf, heap_mib=384)
    address = f"127.0.0.1:{listen}"
    with _killed_on_error(process):
        process.wait_until(lambda: accepts(address), f"listening on {address}", START_TIMEOUT_S)
        process.wait_until(
            lambda: _registers(namesrv, address), f"registered with {namesrv}", START_TIMEOUT_S
        )
    return ApacheNode(process, address, home, store or home / "store")


@contextmanager
def _killed_on_error(process: Child) -> Iterator[None]:
    try:
        yield
    except BaseException:
        process.kill()
        raise


def _registers(namesrv: str, broker: str) -> bool:
    """Say whether the broker is in the name server's list, and ask it to register when it is not.

    A broker that looked for its name server a moment too early tries again only after ten seconds; setting
    its permission, even to what it is, makes it register at once.
    """
    if is_registered(namesrv, broker):
        return True
    with suppress(OSError):
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
        # Nobody speaks TLS here, and the keys for it, made anew at each start, take half of the start's time.
        "-Dtls.server.mode=disabled",
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
