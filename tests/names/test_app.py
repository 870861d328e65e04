"""A whole name server in virtual time: silence, closed links, jumping clocks, who may administer."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from roquet.ports import Ports
from roquet.runtime.settings import NamesSettings
from roquet.sim.world import World
from roquet.transport.link import Call
from roquet.transport.server import Server
from roquet.wire.requests import names as rows
from tests.names.node import SETTINGS, Asker, serve

Story = Callable[[World, Asker, Asker], Coroutine[Any, Any, None]]


def tell(story: Story, settings: NamesSettings = SETTINGS, seed: int = 1) -> str:
    """Run a story with a broker and a client on hosts of their own; return the trace's hash."""
    with World(seed) as world:
        world.net.add_host("client", "10.9.0.1")  # the only one that is not on loopback

        async def main() -> None:
            world.start("names", serve(world.ports("names"), settings))
            broker = Asker(world.ports("broker"), "names")
            client = Asker(world.ports("client"), "names")
            await client.sleep(0.1)
            await story(world, broker, client)
            for asker in (broker, client):
                asker.dialer.close()

        world.run(main())
        return world.trace_hash()


def test_a_silent_broker_expires_after_two_minutes() -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        await broker.register()
        world.net.power_off("broker")
        # The scan comes every five seconds, so the routes end between 120 and 125 seconds.
        await client.sleep(119)
        assert await client.route("t") is not None
        await client.sleep(7)
        assert await client.route("t") is None
        world.net.power_on("broker")

    tell(story)


def test_heartbeats_keep_a_broker_alive() -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        await broker.register(heartbeat_timeout_millis=10_000)
        for _ in range(30):
            await broker.sleep(5)
            await broker.ask(rows.BrokerHeartbeat("DefaultCluster", "10.0.0.1:10911", "broker-a"))
        assert await client.route("t") is not None
        await client.sleep(16)
        assert await client.route("t") is None

    tell(story)


@pytest.mark.parametrize("how", ["close", "kill", "cut"])
def test_a_closed_link_ends_the_routes_at_once(how: str) -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        await broker.register()
        assert await client.route("t") is not None
        if how == "close":
            broker.dialer.close()
        elif how == "kill":
            world.net.kill("broker")
        else:
            world.net.cut("names", "broker")
        await client.sleep(0.1)
        assert await client.route("t") is None

    tell(story)


@pytest.mark.parametrize("jump_ms", [-86_400_000, 86_400_000])
def test_a_clock_that_jumps_expires_nobody(jump_ms: int) -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        await broker.register()
        world.clock("names").jump_ms(jump_ms)
        await client.sleep(20)
        assert await client.route("t") is not None

    tell(story)


def test_values_survive_a_restart_and_routes_are_learnt_again() -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        local = Asker(world.ports("names"))
        await local.ask(rows.PutValue("ns", "k", "v"))
        await broker.register()
        world.kill("names")
        await client.sleep(1)
        world.start("names", serve(world.ports("names")))
        await client.sleep(1)
        assert (await client.ask(rows.GetValue("ns", "k"))).ext == {"value": "v"}
        assert await client.route("t") is None
        await broker.register()
        assert await client.route("t") is not None

    tell(story)


@pytest.mark.parametrize(("from_anywhere", "code"), [(False, 16), (True, 0)])
def test_administration_from_other_hosts(from_anywhere: bool, code: int) -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        for request in (
            rows.PutValue("ns", "k", "v"),
            rows.DeleteValue("ns", "k"),
            rows.WipeWrite("broker-a"),
            rows.AddWrite("broker-a"),
            rows.DeleteRoute("t"),
            rows.UpdateNamesSettings(),
        ):
            assert (await client.ask(request)).code == code
            assert (await Asker(world.ports("names")).ask(request)).code == 0
        assert (await client.ask(rows.GetClusters())).code == 0

    tell(story, dataclasses.replace(SETTINGS, admin_from_anywhere=from_anywhere))


def test_members_are_told_of_a_new_smallest_id() -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        heard: list[rows.NotifyMinBrokerId] = []

        def note(call: Call) -> None:
            assert call.frame.is_one_way
            heard.append(rows.NotifyMinBrokerId.decode(call.frame.ext))

        ports: Ports = world.ports("slave")
        member = Server(ports.net, ports.clock, note)
        await member.start([("0.0.0.0", 10911)])
        slave = Asker(ports, "names")
        await slave.register(address="slave:10911", broker_id=1, enable_acting_master=True)
        await broker.register(enable_acting_master=True)
        await client.sleep(1)
        broker.dialer.close()
        await client.sleep(1)
        assert heard == [
            rows.NotifyMinBrokerId(0, "broker-a", "10.0.0.1:10911", None, "10.0.0.1:10912"),
            rows.NotifyMinBrokerId(1, "broker-a", "slave:10911", "10.0.0.1:10911", None),
        ]
        slave.dialer.close()
        await member.close()

    tell(story, dataclasses.replace(SETTINGS, notify_min_broker_id_changed=True))


def test_an_address_that_is_taken_is_an_error_at_the_start() -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        with pytest.raises(OSError):
            await serve(world.ports("names"))

    tell(story)


def test_one_seed_is_one_history() -> None:
    async def story(world: World, broker: Asker, client: Asker) -> None:
        await asyncio.gather(*(client.route("t") for _ in range(10)), broker.register())

    assert tell(story, seed=5) == tell(story, seed=5) != tell(story, seed=6)
