"""A whole world: ports of hosts, crashes, clock jumps, and one seed for all of it."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from roquet.ports import Ports
from roquet.sim.loop import Deadlock, OutOfTime
from roquet.sim.world import Broken, World, simulate

ROOT = Path(__file__).parents[2]


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Collect(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


async def serve(ports: Ports) -> None:
    await ports.net.listen(Echo, "0.0.0.0", 7)
    await asyncio.Event().wait()


async def ask(ports: Ports, size: int) -> bytes:
    transport, protocol = await ports.net.connect(Collect, "echo", 7, 3.0)
    assert isinstance(protocol, Collect)
    transport.write(bytes(ports.rng.randrange(256) for _ in range(size)))
    while len(protocol.data) < size:
        await ports.clock.sleep_until(ports.clock.monotonic() + 0.01)
    return protocol.data


async def scenario(world: World) -> bytes:
    world.start("echo", serve(world.ports("echo")))
    await asyncio.sleep(0)
    answers = await asyncio.gather(*(ask(world.ports(f"client-{n}"), 3000) for n in range(5)))
    disk = world.disk("echo")
    disk.write_file("/answers", b"".join(answers))
    return disk.read_file("/answers")


def test_one_seed_is_one_history() -> None:
    first, again, other = simulate(7, scenario), simulate(7, scenario), simulate(8, scenario)
    assert first == again
    assert first.trace_hash != other.trace_hash


def test_the_history_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "import sys; from tests.sim.test_world import scenario; from roquet.sim.world import simulate; "
        "print(simulate(7, scenario).trace_hash)"
    )

    def once(hash_seed: str) -> str:
        env = {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join([".", *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, cwd=ROOT, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    assert once("1") == once("2") == simulate(7, scenario).trace_hash


def test_wall_clocks_jump_host_by_host_while_monotonic_is_shared() -> None:
    async def main(world: World) -> None:
        one, other = world.clock("one"), world.clock("other")
        assert one.now_ms() == other.now_ms()
        one.jump_ms(-60_000)
        await one.sleep_until(one.monotonic() + 0.29)
        assert other.now_ms() - one.now_ms() == 60_000
        assert one.monotonic() == other.monotonic() == 0.29
        assert other.now_ms() % 1000 == 290

    simulate(1, main)


def test_a_timer_can_be_cancelled() -> None:
    async def main(world: World) -> None:
        fired: list[str] = []
        clock = world.clock("one")
        clock.call_at(1.0, fired.append, "first")
        clock.call_at(2.0, fired.append, "second").cancel()
        await clock.sleep_until(3.0)
        assert fired == ["first"]

    simulate(1, main)


def test_a_power_cut_loses_unsynced_writes_and_leaves_peers_half_open() -> None:
    ended: list[str] = []

    async def writer(ports: Ports) -> None:
        try:
            await ports.net.listen(Echo, "0.0.0.0", 7)
            ports.disk.make_dirs("/d")
            file = ports.disk.open("/d/f", 16384)
            file.write_at(0, b"kept")
            await file.sync()
            ports.disk.sync_dir("/d")
            await asyncio.Event().wait()
        finally:
            ended.append("the dead do not tidy up")

    with World(3) as world:
        world.start("echo", writer(world.ports("echo")))

        async def before() -> Collect:
            await asyncio.sleep(1)
            _, protocol = await world.ports("client").net.connect(Collect, "echo", 7, 3)
            assert isinstance(protocol, Collect)
            return protocol

        protocol = world.run(before())
        world.power_cut("echo")

        async def after() -> None:
            await asyncio.sleep(100)

        world.run(after())
        assert not protocol.lost.done() and ended == []
        world.power_on("echo")
        assert world.ports("echo").disk.read_file("/d/f")[:4] == b"kept"


def test_a_killed_program_can_be_started_again() -> None:
    with World(3) as world:
        world.start("echo", serve(world.ports("echo")))

        async def once() -> Collect:
            await asyncio.sleep(1)
            _, protocol = await world.ports("client").net.connect(Collect, "echo", 7, 3)
            assert isinstance(protocol, Collect)
            return protocol

        protocol = world.run(once())
        world.kill("echo")

        async def told() -> None:
            await protocol.lost

        world.run(told())
        world.start("echo", serve(world.ports("echo")))
        world.run(ask(world.ports("client"), 10))


@pytest.mark.filterwarnings("error")
def test_a_task_that_was_killed_before_its_first_step_is_gone_without_a_word() -> None:
    async def never() -> None:
        raise AssertionError("the dead do not begin")

    async def parent(world: World) -> None:
        await asyncio.sleep(1)
        asyncio.create_task(never()).add_done_callback(lambda _: None)
        world.kill("one")

    async def main(world: World) -> None:
        world.start("one", parent(world))
        await asyncio.sleep(2)

    simulate(3, main)
    gc.collect()  # what Python has to say of a coroutine it says when it is collected


def test_a_program_that_fails_fails_the_run() -> None:
    async def broken() -> None:
        raise ValueError("no such thing")

    async def main(world: World) -> None:
        world.start("a", broken())
        await asyncio.sleep(1)

    with pytest.raises(Broken, match="seed 1: a main ended with ValueError"):
        simulate(1, main)


def test_stuck_and_slow_runs_end() -> None:
    async def forever(world: World) -> None:
        await asyncio.Event().wait()

    async def ticking(world: World) -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(Deadlock):
        simulate(1, forever)
    with pytest.raises(OutOfTime):
        simulate(1, ticking, limit_s=5)
