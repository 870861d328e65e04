"""Reading where a broker says: a slave when the master suggests it, the master again when that fails.

The servers are scripts here, because our own broker has no slaves.
"""

from __future__ import annotations

from typing import Any

from roquet.client.consumer.consumer import Consumer
from roquet.client.message import Message
from roquet.model.message import Draft, Host
from roquet.model.route import BrokerData, QueueData, Route
from roquet.sim.world import World
from roquet.store.format import record
from roquet.transport.link import Call, Link
from roquet.wire.bodies import route as route_body
from roquet.wire.codes import Code
from roquet.wire.reply import OK, Reply
from roquet.wire.requests.client import GetConsumerList, Heartbeat, UnregisterClient
from roquet.wire.requests.names import GetRoute
from roquet.wire.requests.offsets import OffsetFound, QueryOffset, UpdateOffset
from roquet.wire.requests.pull import Pull, Pulled, PullFlag
from roquet.wire.row import row_of

NAMES, MASTER, SLAVE, CLIENT = "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"
HERE = Host(b"\x7f\0\0\3", 10911)


def code_of(request: type) -> int:
    return row_of(request).code


class Script:
    """A name server, a master and its slave that say what the test wants, and note what they are asked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.pulls: list[tuple[str, Pull]] = []
        self.members: list[str] = []
        self.stored: list[int] = []
        self.suggests = 0
        self.end = 0

    async def listen(self, host: str, port: int) -> None:
        ports = self.world.ports(host)
        await ports.net.listen(lambda: Link(ports.clock, lambda call: self.serve(host, call)), host, port)

    def serve(self, host: str, call: Call) -> None:
        reply = self.reply(host, call)
        if reply is not None:
            call.answer(reply)

    def reply(self, host: str, call: Call) -> Reply | None:
        code, frame = call.frame.code, call.frame
        if code == code_of(GetRoute):
            if frame.ext["topic"] != "orders":
                return Reply(Code.TOPIC_NOT_EXIST, remark="no route")
            addresses = {0: f"{MASTER}:10911", 1: f"{SLAVE}:10911"}
            queues = (QueueData("broker-a", 6, 1, 0, 1),)
            route = Route(queues, (BrokerData(addresses, "broker-a", "c"),))
            return Reply(body=route_body.encode_standard(route))
        if code == code_of(Heartbeat):
            self.members = [_client_id(frame.body)]
            return OK
        if code == code_of(GetConsumerList):
            return Reply(body=b'{"consumerIdList":["%s"]}' % self.members[0].encode())
        if code == code_of(QueryOffset):
            return Reply(Code.SUCCESS, OffsetFound(0))
        if code == code_of(UpdateOffset):
            self.stored.append(int(frame.ext["commitOffset"]))
            return OK
        if code == code_of(Pull):
            return self.pulled(host, Pull.decode(frame.ext))
        if code == code_of(UnregisterClient):
            return OK
        return Reply(Code.REQUEST_CODE_NOT_SUPPORTED)

    def pulled(self, host: str, pull: Pull) -> Reply | None:
        self.pulls.append((host, pull))
        at = pull.queue_offset
        if at == self.end:
            return None  # kept until the client gives up
        header = Pulled(self.suggests, at + 1, 0, self.end)
        draft = Draft("orders", 0, b"m%d" % at, b"", 0, 0, 0, HERE)
        return Reply(Code.SUCCESS, header, record.encode(draft, at, 100 * at, 0, HERE))


def _client_id(body: bytes) -> str:
    return body.partition(b'"clientID":"')[2].partition(b'"')[0].decode()


def test_the_slave_is_read_while_the_master_suggests_it_and_positions_go_to_the_master() -> None:
    with World(1) as world:
        script = Script(world)
        clock = world.ports(CLIENT).clock

        async def main() -> None:
            for host, port in ((NAMES, 9876), (MASTER, 10911), (SLAVE, 10911)):
                await script.listen(host, port)
            script.suggests, script.end = 1, 3
            got: list[Message] = []
            options: dict[str, Any] = {"group": "g", "subscribe": "orders", "handler": got.append}
            async with Consumer(f"{NAMES}:9876", **options, ports=world.ports(CLIENT)):
                await clock.sleep_until(clock.monotonic() + 6)
                assert [message.body for message in got] == [b"m0", b"m1", b"m2"]
                hosts = [host for host, _ in script.pulls]
                assert hosts == [MASTER, SLAVE, SLAVE, SLAVE]
                assert not any(pull.sys_flag & PullFlag.COMMIT_OFFSET for _, pull in script.pulls[1:])
                assert script.stored[-1] == 3  # by a request of its own
                world.net.cut(CLIENT, SLAVE)
                script.suggests, script.end = 0, 5
                await clock.sleep_until(clock.monotonic() + 6)
                assert [message.body for message in got[3:]] == [b"m3", b"m4"]
                assert [host for host, _ in script.pulls[4:]] == [MASTER, MASTER, MASTER]
                assert script.pulls[-1][1].sys_flag & PullFlag.COMMIT_OFFSET

        world.run(main())
