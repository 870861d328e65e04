"""A stage for broker tests: a name server and a broker in a simulated world, and a client beside them.

The programs are the real ones on simulated ports: time is virtual, the network is in memory, the disk
loses what was not synced when the power is cut. `Stage.play` runs a scenario and closes everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from roquet.broker.app import Broker
from roquet.client import Plain, connect
from roquet.names.app import NameServer
from roquet.runtime.addresses import Addresses
from roquet.runtime.settings import BrokerSettings, Endpoint, NamesSettings
from roquet.sim.world import World
from roquet.store.settings import StoreSettings

NAMES_HOST, BROKER_HOST, CLIENT_HOST = "127.0.0.2", "127.0.0.3", "127.0.0.4"
NAMESRV = f"{NAMES_HOST}:9876"
BROKER = f"{BROKER_HOST}:10911"

SMALL: dict[str, Any] = {
    "root_dir": "/store",
    "log_file_size_bytes": 256 * 1024,
    "queue_file_size_bytes": 2_000,
    "index_slot_count": 500,
    "index_entry_count": 2_000,
}


class Stage:
    """One world with one name server and one broker that can be restarted."""

    def __init__(self, seed: int = 1, store: dict[str, Any] | None = None, **broker: Any) -> None:
        self.world = World(seed)
        self.store_settings = StoreSettings(**(SMALL | (store or {})))
        self.settings = BrokerSettings(
            broker_name="broker-a", namesrv_addresses=(Endpoint(NAMES_HOST, 9876),), **broker
        )
        self.broker: Broker | None = None

    def play(
        self, scenario: Callable[[Stage, Plain], Coroutine[Any, Any, None]], limit_s: float = 3_600
    ) -> None:
        """Start the name server and the broker, run the scenario, stop."""
        with self.world as world:

            async def main() -> None:
                self.start_names()
                await self.start_broker()
                async with connect(NAMESRV, world.ports(CLIENT_HOST)) as client:
                    await scenario(self, client)

            world.run(main(), limit_s)

    def start_names(self) -> None:
        server = NameServer(
            NamesSettings(bind_address=NAMES_HOST, kv_config_path="/kv.json"), self.world.ports(NAMES_HOST)
        )
        self.world.start(NAMES_HOST, _serve(server, None))

    async def start_broker(self) -> Broker:
        """Start the broker on its host and wait until it serves."""
        ready = asyncio.Event()
        broker = self.broker = self.make_broker()
        self.world.start(BROKER_HOST, _serve(broker, ready))
        await ready.wait()
        return broker

    def make_broker(self) -> Broker:
        """Return a broker on its host that has not been started."""
        addresses = Addresses((BROKER_HOST,), BROKER_HOST, BROKER_HOST, ())
        return Broker(self.settings, self.store_settings, addresses, self.world.ports(BROKER_HOST), 4711)

    async def restart(self, *, power_cut: bool) -> Broker:
        """Kill the broker (or cut its power) and start it again on what is left of its disk."""
        if power_cut:
            self.world.power_cut(BROKER_HOST)
            self.world.power_on(BROKER_HOST)
        else:
            self.world.kill(BROKER_HOST)
        return await self.start_broker()

    async def pass_time(self, seconds: float) -> None:
        """Let virtual time pass."""
        clock = self.world.ports(CLIENT_HOST).clock
        await clock.sleep_until(clock.monotonic() + seconds)


async def _serve(program: Broker | NameServer, ready: asyncio.Event | None) -> None:
    await program.start()
    if ready is not None:
        ready.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:  # told to stop; a killed program gets no chance to
        await program.close()
        raise
