"""A broker keeps itself registered: pace, changes, dead name servers, leaving. All in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from roquet.broker.registration import Identity, Registration, Terms, TopicTable
from roquet.model.topic import DataVersion, Topic
from roquet.names.app import NameServer
from roquet.sim.world import World
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call
from roquet.transport.router import Router
from roquet.transport.server import Server
from roquet.transport.tasks import Tasks
from roquet.wire.bodies import registration
from roquet.wire.reply import OK, Reply
from roquet.wire.requests import names as rows
from tests.names.node import PORT, SETTINGS, Asker, serve

IDENTITY = Identity("DefaultCluster", "broker-a", 0, "127.0.0.9:10911", "127.0.0.9:10912")


class Broker:
    """The topics of a broker, and its registration."""

    def __init__(self, world: World, *name_servers: str, terms: Terms | None = None) -> None:
        ports = world.ports("broker")
        self.clock = ports.clock
        self.table = TopicTable(DataVersion(1), {name: Topic(topic_name=name) for name in ("t", "u", "v")})
        self.terms = terms or Terms()
        self.order_topics: list[frozenset[str]] = []
        self.dialer = Dialer(ports.net, ports.clock, Router({}, lambda _: False, Tasks()).serve)
        self.registration = Registration(
            self.dialer,
            ports.clock,
            IDENTITY,
            [f"{host}:{PORT}" for host in name_servers],
            lambda: self.table,
            lambda: self.terms,
            self.order_topics.append,
        )

    def change(self, *topics: Topic) -> None:
        changed = {topic.topic_name: topic for topic in topics}
        self.table = TopicTable(self.table.version.next(0), {**self.table.topics, **changed})
        self.registration.changed(changed)

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep_until(self.clock.monotonic() + seconds)

    async def close(self) -> None:
        await self.registration.close()
        self.dialer.close()


class Heard:
    """A stand-in that notes every registration instead of filing it."""

    def __init__(self, world: World, host: str) -> None:
        self.clock = world.clock(host)
        self.came: list[tuple[float, list[str], DataVersion]] = []
        self.headers: list[rows.RegisterBroker] = []
        self.perms: list[set[int]] = []
        self.left = 0
        self.reply = OK
        self.is_deaf = False
        ports = world.ports(host)
        self.server = Server(ports.net, ports.clock, self._serve)

    async def start(self) -> None:
        await self.server.start([("0.0.0.0", PORT)])

    def _serve(self, call: Call) -> None:
        if self.is_deaf:
            return
        if call.frame.code == 104:
            self.left += 1
        else:
            brought = registration.decode(call.frame.body, compressed=False, version=513)
            header = rows.RegisterBroker.decode(call.frame.ext)
            assert header.body_crc32 == registration.crc32(call.frame.body)
            self.headers.append(header)
            self.came.append((round(self.clock.monotonic()), list(brought.topics), brought.version))
            self.perms.append({topic.perm for topic in brought.topics.values()})
        call.answer(self.reply)


def play(main: Callable[[World], Coroutine[Any, Any, None]], seed: int = 1) -> None:
    with World(seed) as world:
        world.run(main(world))


def heard_story(story: Callable[[Broker, Heard], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run a story of a broker and one name server that only notes."""

    async def main(world: World) -> None:
        names = Heard(world, "n1")
        await names.start()
        broker = Broker(world, "n1", **options)
        await broker.registration.start()
        await story(broker, names)
        await broker.close()
        await names.server.close()

    play(main)


def test_it_registers_at_0_10_40_70_seconds_and_says_good_bye() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        await broker.sleep(75)
        assert [when for when, _, _ in names.came] == [0, 10, 40, 70]
        assert all(topics == ["t", "u", "v"] for _, topics, _ in names.came)
        await broker.registration.close()
        assert names.left == 1

    heard_story(story)


def test_the_header_is_that_of_a_5_5_0_broker() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        header = names.headers[0].encode()
        header.pop("bodyCrc32")
        assert header == {
            "brokerName": "broker-a",
            "brokerAddr": "127.0.0.9:10911",
            "clusterName": "DefaultCluster",
            "haServerAddr": "127.0.0.9:10912",
            "brokerId": "0",
            "enableActingMaster": "false",
            "compressed": "false",
        }

    heard_story(story)


@pytest.mark.parametrize(("period_s", "times"), [(1, [0, 10, 20, 30]), (15, [0, 10, 25]), (600, [0, 10])])
def test_the_period_has_bounds(period_s: float, times: list[float]) -> None:
    async def story(broker: Broker, names: Heard) -> None:
        await broker.sleep(35)
        assert [when for when, _, _ in names.came] == times

    heard_story(story, terms=Terms(period_s=period_s))


def test_the_longest_period_is_a_minute() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        await broker.sleep(135)
        assert [when for when, _, _ in names.came] == [0, 10, 70, 130]

    heard_story(story, terms=Terms(period_s=600))


def test_what_changes_in_one_turn_goes_out_together_and_at_once() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        await broker.sleep(2)
        broker.change(Topic(topic_name="new"))
        await broker.sleep(0.1)
        broker.change(Topic(topic_name="x"))
        broker.change(Topic(topic_name="y"), Topic(topic_name="t", perm=4))
        await broker.sleep(0.1)
        assert [(when, topics, version.counter) for when, topics, version in names.came[1:]] == [
            (2, ["new"], 2),
            (2, ["x", "y", "t"], 4),
        ]

    heard_story(story)


def test_one_can_wait_until_a_change_is_known() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        broker.change(Topic(topic_name="new"))
        await broker.registration.told()
        assert names.came[-1][1] == ["new"]
        now = broker.clock.monotonic()
        await broker.registration.told()
        assert broker.clock.monotonic() == now

    heard_story(story)


def test_one_does_not_wait_for_ever_until_a_change_is_known() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        names.is_deaf = True
        broker.change(Topic(topic_name="new"))
        now = broker.clock.monotonic()
        await broker.registration.told()
        assert broker.clock.monotonic() - now == pytest.approx(3.0)

    heard_story(story)


def test_the_first_name_server_to_answer_gets_more_time_than_the_others() -> None:
    async def main(world: World) -> None:
        names = Heard(world, "n1")
        names.is_deaf = True
        await names.start()
        broker = Broker(world, "n1")
        now = broker.clock.monotonic()
        await broker.registration.start()
        assert broker.clock.monotonic() - now == pytest.approx(6.0)
        await broker.close()
        await names.server.close()

    play(main)


def test_a_changed_topic_that_is_gone_again_is_not_sent() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        broker.registration.changed(["ghost"])
        await broker.sleep(1)
        assert len(names.came) == 1

    heard_story(story)


def test_a_large_table_goes_in_pieces_that_all_count() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        assert [topics for _, topics, _ in names.came] == [["t", "u"], ["v"]]
        versions = [version for _, _, version in names.came]
        assert versions[0] != versions[1]

    heard_story(story, terms=Terms(topics_per_request=2))


@pytest.mark.parametrize(("permission", "perms"), [(6, {6}), (4, {4}), (2, {2}), (7, {6})])
def test_the_brokers_permission_narrows_its_topics(permission: int, perms: set[int]) -> None:
    async def story(broker: Broker, names: Heard) -> None:
        assert names.perms == [perms]

    heard_story(story, terms=Terms(permission=permission))


def test_a_new_permission_is_registered_at_once_when_asked() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        broker.terms = Terms(permission=4)
        broker.registration.register_all()
        await broker.sleep(1)
        assert names.perms == [{6}, {4}]

    heard_story(story)


def test_order_topics_are_reported() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        assert broker.order_topics == []
        names.reply = Reply(body=registration.encode_values({"t": "broker-a:4"}))
        await broker.sleep(11)
        assert broker.order_topics == [frozenset({"t"})]

    heard_story(story)


def test_a_refused_change_brings_everything_again() -> None:
    async def story(broker: Broker, names: Heard) -> None:
        names.reply = Reply(1, remark="register broker failed")
        broker.change(Topic(topic_name="new"))
        await broker.sleep(0.1)
        names.reply = OK
        await broker.sleep(2)
        assert [topics for _, topics, _ in names.came[1:]] == [["new"], ["t", "u", "v", "new"]]

    heard_story(story)


def test_a_lost_link_is_taken_up_again_without_waiting_for_the_period() -> None:
    async def main(world: World) -> None:
        world.start("n1", serve(world.ports("n1")))
        broker, client = Broker(world, "n1"), Asker(world.ports("client"), "n1")
        await broker.sleep(0.1)
        await broker.registration.start()
        await broker.sleep(15)
        world.net.cut("broker", "n1")
        await broker.sleep(0.1)
        assert await client.route("t") is None
        await broker.sleep(2)
        assert await client.route("t") is not None
        await broker.close()

    play(main)


@pytest.mark.parametrize("dead", ["nothing listens", "black hole", "never answers"])
def test_a_dead_name_server_costs_the_other_nothing(dead: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "roquet.broker.registration")

    async def main(world: World) -> None:
        world.start("n1", serve(world.ports("n1")))
        silent = Server(world.ports("n2").net, world.clock("n2"), lambda _: None)
        if dead == "never answers":
            await silent.start([("0.0.0.0", PORT)])
        elif dead == "black hole":
            world.net.power_off("n2")
        broker, client = Broker(world, "n2", "n1"), Asker(world.ports("client"), "n1")
        await broker.sleep(0.1)
        started = broker.clock.monotonic()
        await broker.registration.start()
        assert broker.clock.monotonic() - started <= 1.0
        assert await client.route("t") is not None
        broker.change(Topic(topic_name="new"))
        await broker.sleep(0.1)
        assert await client.route("new") is not None
        await broker.sleep(300)
        assert await client.route("t") is not None
        assert broker.registration.registered_with == (f"n1:{PORT}",)
        started = broker.clock.monotonic()
        await broker.close()
        assert broker.clock.monotonic() - started <= 3.1
        assert await client.route("t") is None
        await silent.close()

    play(main)
    lines = [record.getMessage() for record in caplog.records if record.name == "roquet.broker.registration"]
    # One line a change of state, not one a try; a black hole also has no link to say good-bye over.
    about = [[line for line in lines if host in line and "good-bye" not in line] for host in ("n1", "n2")]
    assert [len(each) for each in about] == [1, 1]


def test_a_name_server_that_comes_later_is_found_soon() -> None:
    async def main(world: World) -> None:
        broker, client = Broker(world, "n1"), Asker(world.ports("client"), "n1")
        await broker.registration.start()
        await broker.sleep(20)
        world.start("n1", serve(world.ports("n1")))
        await broker.sleep(31)
        assert await client.route("t") is not None
        world.kill("n1")
        await broker.sleep(5)
        world.start("n1", serve(world.ports("n1")))
        await broker.sleep(5)
        assert await client.route("t") is not None
        await broker.close()

    play(main)


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with World(1) as world, pytest.raises(ValueError, match="host:port"):
        ports = world.ports("broker")
        dialer = Dialer(ports.net, ports.clock, lambda _: None)
        table = TopicTable(DataVersion(), {})
        Registration(dialer, ports.clock, IDENTITY, ["nonsense"], lambda: table, Terms, lambda _: None)


def test_fifty_thousand_topics_reach_the_routes() -> None:
    async def main(world: World) -> None:
        server = NameServer(SETTINGS, world.ports("n1"))
        await server.start()
        broker, client = (
            Broker(world, "n1", terms=Terms(topics_per_request=800)),
            Asker(world.ports("client"), "n1"),
        )
        names = [f"topic-{number:05d}" for number in range(50_000)]
        broker.table = TopicTable(DataVersion(1), {name: Topic(topic_name=name) for name in names})
        await broker.registration.start()
        await asyncio.wait_for(_until(broker, lambda: bool(broker.registration.registered_with)), 100)
        for name in (names[0], names[25_000], names[-1]):
            assert await client.route(name) is not None
        await broker.close()
        await server.close()

    play(main)


async def _until(broker: Broker, condition: Callable[[], bool]) -> None:
    while not condition():
        await broker.sleep(0.1)
