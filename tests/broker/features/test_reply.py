"""Requests and replies on a whole broker in the simulation: who gets an answer, and what its sender hears."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from roquet.client import Plain
from roquet.model.message import format_properties, parse_properties
from roquet.model.names import HALF_TOPIC
from roquet.transport.dialer import Dialer
from roquet.transport.link import Call
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.reply import OK, Reply
from roquet.wire.requests.client import Heartbeat
from roquet.wire.requests.reply import PushReply, SendReply, SendReplyV2
from roquet.wire.requests.send import Sent
from tests.broker.stage import BROKER, CLIENT_HOST, Stage

TOPIC = "DefaultCluster_REPLY_TOPIC"
COMPRESSED = 1


def take(call: Call) -> None:
    call.answer(OK)


class Requester:
    """A producer that waits for answers; `react` is what it does at each push."""

    def __init__(self, stage: Stage, client_id: str, react: Callable[[Call], None] = take) -> None:
        ports = stage.world.ports(CLIENT_HOST)
        self.pushed: list[tuple[PushReply, bytes]] = []
        self.client_id = client_id
        self._react = react
        self._dialer = Dialer(ports.net, ports.clock, self._serve)

    async def heartbeat(self, group: str = "PG") -> None:
        body = {
            "clientID": self.client_id,
            "consumerDataSet": [],
            "producerDataSet": [{"groupName": group}],
        }
        answer = await self._dialer.call(BROKER, Heartbeat(), 5, msgspec.json.encode(body))
        assert answer.code == Code.SUCCESS

    async def leave(self) -> None:
        (await self._dialer.link(BROKER)).close()

    def _serve(self, call: Call) -> None:
        self.pushed.append((PushReply.decode(call.frame.ext), bytes(call.frame.body)))
        self._react(call)


async def live(stage: Stage, client_id: str, react: Callable[[Call], None] = take) -> Requester:
    requester = Requester(stage, client_id, react)
    await requester.heartbeat()
    return requester


async def send_reply(stage: Stage, to: str, body: bytes = b"answer", **changes: Any) -> Frame:
    """Send a reply as the Java client does, and return what its sender hears."""
    ports = stage.world.ports(CLIENT_HOST)
    pairs = {"MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "TTL": "3000", "UNIQ_KEY": "U1"}
    if to:
        pairs["REPLY_TO_CLIENT"] = to
    request = changes.pop("kind", SendReplyV2)(
        "RG", TOPIC, "TBW102", 4, 0, COMPRESSED, ports.clock.now_ms(), 7, format_properties(pairs)
    )
    for name, value in changes.items():
        setattr(request, name, value)
    dialer = Dialer(ports.net, ports.clock, lambda call: None)
    try:
        return await dialer.call(BROKER, request, 30, body)
    finally:
        dialer.close()


@pytest.mark.parametrize("kind", [SendReply, SendReplyV2])
def test_a_reply_reaches_who_asked_and_is_kept(kind: type) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        asker, other = await live(stage, "asker"), await live(stage, "other")
        answer = await send_reply(stage, "asker", kind=kind)
        assert (answer.code, answer.ext["MSG_REGION"]) == (Code.SUCCESS, "DefaultRegion")
        ((push, body),) = asker.pushed
        assert other.pushed == []
        assert (body, push.topic, push.sys_flag, push.flag) == (b"answer", TOPIC, COMPRESSED, 7)
        assert push.store_host == BROKER
        assert push.born_host.startswith(f"{CLIENT_HOST}:")
        pairs = parse_properties(push.properties or "")
        assert int(pairs.pop("PUSH_REPLY_TIME")) == push.store_timestamp
        assert pairs["CORRELATION_ID"] == "c-1"
        (kept,) = await client.read(TOPIC, 0, 0)
        assert kept.properties == pairs  # as it came
        assert Sent.decode(answer.ext).queue_offset == 0
        assert Sent.decode((await send_reply(stage, "asker", kind=kind)).ext).queue_offset == 1

    Stage().play(scenario)


def test_a_reply_opens_no_transaction() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        asker = await live(stage, "asker")
        pairs = {"REPLY_TO_CLIENT": "asker", "UNIQ_KEY": "U1", "TRAN_MSG": "true", "PGROUP": "PG"}
        for kind in (SendReply, SendReplyV2):
            answer = await send_reply(stage, "", kind=kind, properties=format_properties(pairs), sys_flag=4)
            assert answer.code == Code.SUCCESS
        kept = await client.read(TOPIC, 0, 0)
        assert [each.properties for each in kept] == [pairs, pairs]
        assert len(asker.pushed) == 2
        assert stage.broker is not None
        assert stage.broker.store.max_offset(HALF_TOPIC, 0) == 0

    Stage().play(scenario)


def test_a_reply_is_not_kept_when_that_is_switched_off() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        asker = await live(stage, "asker")
        answer = await send_reply(stage, "asker", queue_id=-1)
        sent = Sent.decode(answer.ext)
        assert (answer.code, sent.msg_id, sent.queue_id, sent.queue_offset) == (Code.SUCCESS, "0", 0, 0)
        assert len(asker.pushed) == 1
        assert await client.read(TOPIC, 0, 0) == []

    Stage(store_reply=False).play(scenario)


def test_a_reply_that_does_not_arrive_is_said_and_kept() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await live(stage, "deaf", lambda call: None)
        await live(
            stage, "cross", lambda call: call.answer(Reply(Code.SYSTEM_ERROR, remark="no such request"))
        )
        began = stage.world.ports(CLIENT_HOST).clock.monotonic()
        deaf = await send_reply(stage, "deaf")
        assert stage.world.ports(CLIENT_HOST).clock.monotonic() - began == pytest.approx(10, abs=1)
        answers = [
            (deaf, "did not answer"),
            (await send_reply(stage, "cross"), "no such request"),
            (await send_reply(stage, "nobody"), "channel of <nobody> not found"),
            (await send_reply(stage, ""), "[REPLY_TO_CLIENT] is null"),
        ]
        for answer, words in answers:
            assert answer.code == Code.SYSTEM_ERROR
            assert words in answer.remark
        assert len(await client.read(TOPIC, 0, 0)) == 4

    Stage().play(scenario)


def test_the_newest_connection_of_a_client_gets_the_reply() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        first = await live(stage, "asker")
        await send_reply(stage, "asker")
        await first.leave()
        await stage.pass_time(1)
        assert (await send_reply(stage, "asker")).code == Code.SYSTEM_ERROR
        second = await live(stage, "asker")
        assert (await send_reply(stage, "asker")).code == Code.SUCCESS
        assert (len(first.pushed), len(second.pushed)) == (1, 1)
        await stage.pass_time(1)
        third = Requester(stage, "asker")
        await third.heartbeat("OTHER")
        await second.leave()
        await stage.pass_time(1)
        assert (await send_reply(stage, "asker")).code == Code.SUCCESS
        assert (len(second.pushed), len(third.pushed)) == (1, 1)

    Stage().play(scenario)


def test_a_client_that_goes_while_it_is_asked_does_not_hold_the_sender_up() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await live(stage, "leaver", lambda call: call.link.abort())
        answer = await send_reply(stage, "leaver")
        assert answer.code == Code.SYSTEM_ERROR
        assert "closed the connection" in answer.remark

    Stage().play(scenario)


@pytest.mark.parametrize("power_cut", [False, True])
def test_after_a_restart_replies_go_on_when_the_client_is_back(power_cut: bool) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await live(stage, "asker")
        await send_reply(stage, "asker")
        await stage.restart(power_cut=power_cut)
        assert (await send_reply(stage, "asker")).code == Code.SYSTEM_ERROR
        asker = await live(stage, "asker")
        assert (await send_reply(stage, "asker")).code == Code.SUCCESS
        assert len(asker.pushed) == 1

    Stage().play(scenario)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": "bad/name"}, Code.INVALID_PARAMETER),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, Code.NO_PERMISSION),
        ({"topic": "%RETRY%g"}, Code.TOPIC_NOT_EXIST),
        ({"topic": "new", "default_topic": "none"}, Code.TOPIC_NOT_EXIST),
        ({"queue_id": 9}, Code.INVALID_PARAMETER),
    ],
)
def test_a_reply_to_a_place_that_there_is_not_goes_nowhere(changes: dict[str, Any], code: int) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        asker = await live(stage, "asker")
        answer = await send_reply(stage, "asker", **changes)
        assert (answer.code, answer.ext["TRACE_ON"]) == (code, "true")
        assert asker.pushed == []

    Stage().play(scenario)


def test_a_reply_too_large_to_keep_still_arrives() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        asker = await live(stage, "asker")
        answer = await send_reply(stage, "asker", b"x" * 3_000)
        assert (answer.code, Sent.decode(answer.ext).msg_id) == (Code.SUCCESS, "0")
        assert [len(body) for _, body in asker.pushed] == [3_000]
        assert await client.read(TOPIC, 0, 0) == []

    Stage(store={"message_size_bytes_max": 2_000}).play(scenario)
