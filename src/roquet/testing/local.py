"""A real name server and a real broker inside a test, on a clock that the test moves.

    async with broker() as mq:                                  # in memory; sockets=True: on free ports
        async with mq.producer() as producer:
            await producer.send("hello", b"...", delay=timedelta(hours=2))
        await mq.clock.advance(timedelta(hours=2))

The programs are the production ones on other ports: network, disk and clock are the test's own. Settings
are the keys of broker.conf, as keywords. What differs from a broker that is started by hand is in DEFAULTS.
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from roquet.broker.app import Broker
from roquet.names.app import NameServer
from roquet.ports import Disk, Net, Ports
from roquet.runtime import config
from roquet.runtime.addresses import Addresses
from roquet.runtime.disk import OsDisk
from roquet.runtime.net import RealNet
from roquet.runtime.settings import NamesSettings
from roquet.sim.disk import SimDisk
from roquet.testing.clock import ManualClock
from roquet.testing.free_ports import BROKER_STEPS, free_port
from roquet.testing.net import MemoryNet

if TYPE_CHECKING:
    from roquet.client.admin import Admin
    from roquet.client.consumer.consumer import Consumer
    from roquet.client.producer.producer import Producer
    from roquet.client.reader.reader import Reader

HOST: Final = "127.0.0.1"
NAMES_PORT, BROKER_PORT = 9876, 10911
MEMORY_DIR: Final = "/store"
LULL_SECONDS: Final = 0.001
"""How long sockets must be silent before time moves on: a round trip on loopback takes a tenth of that."""

PORT_ATTEMPTS: Final = 5
NEVER_MS: Final = str(2**31 - 1)
Setting = str | int | float | bool
NO_SETTINGS: Final[Mapping[str, Setting]] = {}

DEFAULTS: Final[Mapping[str, str]] = {
    # Small files: a test has few messages, and memory is what the disk is made of.
    "mappedFileSizeCommitLog": str(16 * 1024 * 1024),
    "mappedFileSizeConsumeQueue": str(6_000 * 20),
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    # A test must not depend on how full the disk of the machine is.
    "diskMaxUsedSpaceRatio": "100",
    "diskSpaceCleanForciblyRatio": "100",
    "diskSpaceWarningLevelRatio": "100",
    # Clients on the machine's own clock must not be dropped when the test moves the broker's.
    "channelExpiredTimeout": NEVER_MS,
    "serverChannelMaxIdleTimeSeconds": "86400",
    # A tenth of a second, so that a message is there when its time has come and not a second later.
    "timerPrecisionMs": "100",
    # Everything on, so that it can be tested.
    "brokerName": "broker-a",
    "enablePropertyFilter": "true",
    "recallMessageEnable": "true",
    "traceTopicEnable": "true",
}


class LocalBroker:
    """A name server and a broker in this process. Get one from `broker()`."""

    def __init__(
        self, clock: ManualClock, net: Net, disk: Disk, root_dir: str, settings: Mapping[str, Setting]
    ) -> None:
        self.clock = clock
        self.ports = Ports(clock, Random(), disk, net)
        """What a client in the same test takes: `roquet.Producer(mq.namesrv, ports=mq.ports)`."""
        self._root_dir = root_dir
        self._given = {**DEFAULTS, **{key: _text(value) for key, value in settings.items()}}
        is_real = isinstance(net, RealNet)
        self._names_port = free_port() if is_real else NAMES_PORT
        self._broker_port = free_port(BROKER_STEPS) if is_real else BROKER_PORT
        self._names: NameServer | None = None
        self._broker: Broker | None = None

    @property
    def namesrv(self) -> str:
        """Where clients ask for routes."""
        return f"{HOST}:{self._names_port}"

    @property
    def address(self) -> str:
        """Where the broker listens."""
        return f"{HOST}:{self._broker_port}"

    # --- clients on the same clock and network

    def producer(self, **options: Any) -> Producer:
        """Return a producer for this broker; options are Producer's."""
        from roquet.client.producer.producer import Producer

        return Producer(self.namesrv, **{"ports": self.ports, **options})

    def consumer(self, **options: Any) -> Consumer:
        """Return a consumer for this broker; options are Consumer's."""
        from roquet.client.consumer.consumer import Consumer

        return Consumer(self.namesrv, **{"ports": self.ports, **options})

    def reader(self, **options: Any) -> Reader:
        """Return a reader for this broker; options are Reader's."""
        from roquet.client.reader.reader import Reader

        return Reader(self.namesrv, **{"ports": self.ports, **options})

    def admin(self, **options: Any) -> Admin:
        """Return an administrator of this broker; options are Admin's."""
        from roquet.client.admin import Admin

        return Admin(self.namesrv, **{"ports": self.ports, **options})

    # --- its life

    async def start(self) -> None:
        """Start what is not running; raises BadSettings, or OSError when a port is taken."""
        if self._names is None:
            names = NameServer(
                NamesSettings(listen_port=self._names_port, bind_address=HOST, server_idle_s=86_400),
                self.ports,
            )
            await names.start()
            self._names = names
        if self._broker is None:
            broker = self._make_broker()
            await broker.start()
            self._broker = broker

    def _make_broker(self) -> Broker:
        found = config.load_broker(
            "",
            {},
            (),
            {
                **self._given,
                "listenPort": str(self._broker_port),
                "namesrvAddr": self.namesrv,
                "storePathRootDir": self._root_dir,
            },
        )
        # Where a server's operator is warned, a test is stopped: a key with a typing error tests nothing.
        wrong = [note.text for note in found.notes if note.severity is config.Severity.WARNING]
        if wrong:
            raise config.BadSettings(wrong)
        return Broker(found.broker, found.store, Addresses((HOST,), HOST, HOST, ()), self.ports, os.getpid())

    async def stop(self) -> None:
        """Stop the broker in order; its messages stay for the next `start`."""
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.close()

    async def restart(self) -> None:
        """Stop the broker and start it again on the same store and address."""
        await self.stop()
        await self.start()

    async def close(self) -> None:
        """Stop both programs."""
        await self.stop()
        names, self._names = self._names, None
        if names is not None:
            await names.close()


@asynccontextmanager
async def broker(
    *,
    sockets: bool = False,
    store: str | Path | None = None,
    settings: Mapping[str, Setting] = NO_SETTINGS,
    **more: Setting,
) -> AsyncIterator[LocalBroker]:
    """Run a name server and a broker for as long as the block lasts.

    Args:
        sockets: listen on free ports of loopback, for clients in other processes, languages or threads;
            without, the network is in memory and only clients with `ports=mq.ports` reach it.
        store: a folder for the messages; without, the disk is in memory too.
        settings: keys of broker.conf; they may also stand as keywords, `autoCreateTopicEnable=False`.
    """
    clock = ManualClock(LULL_SECONDS if sockets else 0.0)
    disk: Disk = SimDisk(Random(), clock) if store is None else OsDisk()
    root_dir = MEMORY_DIR if store is None else _folder(store)
    net: Net = RealNet() if sockets else MemoryNet()
    local = await _started(lambda: LocalBroker(clock, net, disk, root_dir, {**settings, **more}))
    try:
        yield local
    finally:
        await local.close()


async def _started(make: Callable[[], LocalBroker]) -> LocalBroker:
    """Return a broker that runs; another test may take a port between our look at it and our use of it."""
    for _ in range(PORT_ATTEMPTS - 1):
        try:
            return await _start(make())
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    return await _start(make())


async def _start(local: LocalBroker) -> LocalBroker:
    try:
        await local.start()
    except BaseException:
        await local.close()
        raise
    return local


def _folder(store: str | Path) -> str:
    return str(Path(store).absolute())


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
