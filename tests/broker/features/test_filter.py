"""Selectors and subscription conflicts in the whole broker, over the network of the simulation."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from roquet.client import Answered, Plain, connect
from roquet.client.plain import _messages as messages_of
from roquet.store.settings import FlushMode
from roquet.wire.codes import Code
from roquet.wire.requests.client import CheckClientConfig, GetConsumerConnections, Heartbeat, UnregisterClient
from roquet.wire.requests.pull import Pull, Pulled, PullFlag
from roquet.wire.requests.settings import GetRuntimeInfo
from tests.broker.stage import BROKER, NAMESRV, Stage

ON: dict[str, Any] = {"property_filter": True}


def subscription(topic: str, text: str, kind: str = "SQL92", version: int = 1) -> dict[str, Any]:
    return {"topic": topic, "subString": text, "subVersion": version, "expressionType": kind}


def heartbeat(*subscriptions: dict[str, Any], client_id: str = "c1", group: str = "g") -> bytes:
    consumer = {"groupName": group, "subscriptionDataSet": subscriptions}
    return msgspec.json.encode({"clientID": client_id, "consumerDataSet": [consumer]})


async def pull(
    client: Plain, topic: str = "t", at: int = 0, sql: str = "", wait_ms: int = 0, version: int = 1
) -> tuple[list[bytes], int]:
    """Pull as a member of group g, by its heartbeat's subscription or with `sql`; bodies, next offset."""
    flags = (PullFlag.SUBSCRIPTION if sql else 0) | (PullFlag.SUSPEND if wait_ms else 0)
    request = Pull("g", topic, 0, at, 32, int(flags), 0, wait_ms, version, sql or None, "SQL92")
    answer = await client._dialer.call(BROKER, request, 30 + wait_ms / 1000)
    if answer.code not in (Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY):
        raise Answered(answer.code, answer.remark)
    return [one.body for one in messages_of(answer.body)], Pulled.decode(answer.ext).next_begin_offset


async def refused(asked: Any) -> tuple[int, str]:
    with pytest.raises(Answered) as caught:
        await asked
    return caught.value.code, caught.value.remark


async def send(client: Plain, body: bytes, topic: str = "t", **properties: str) -> None:
    await client.send(topic, body, queue_id=0, properties=properties)


def test_a_groups_selector_chooses_from_its_queue() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        for number in range(10):
            await send(client, b"%d" % number, n=str(number), **({"region": "east"} if number % 2 else {}))
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n BETWEEN 3 AND 6")))
        assert await pull(client) == ([b"3", b"4", b"5", b"6"], 10)
        text = "region IS NULL AND n > 3 OR region IN ('east') AND n = 1"
        assert await pull(client, sql=text) == ([b"1", b"4", b"6", b"8"], 10)
        assert await pull(client, sql="n > 100") == ([], 10)
        assert await pull(client, at=10, sql="n > 100") == ([], 10)

    Stage(**ON).play(scenario)


def test_a_parked_pull_is_woken_by_properties() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await send(client, b"0", n="0")
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n > 5")))
        waiting = asyncio.ensure_future(pull(client, at=1, wait_ms=15_000))
        await stage.pass_time(1)
        await send(client, b"1", n="1")
        await stage.pass_time(2)
        assert not waiting.done()
        await send(client, b"2", n="6")
        await stage.pass_time(0.5)
        assert waiting.result() == ([b"2"], 3)

    Stage(**ON).play(scenario)


def test_expressions_that_cannot_be_used_are_refused_with_the_column() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await send(client, b"x")
        body = msgspec.json.encode({"subscriptionData": subscription("t", "a > > 1")})
        code, remark = await refused(client.ask(BROKER, CheckClientConfig(), body))
        assert (code, "column 5" in remark) == (Code.SUBSCRIPTION_PARSE_FAILED, True)
        code, remark = await refused(pull(client, sql="a = "))
        assert (code, "column 5" in remark) == (Code.SUBSCRIPTION_PARSE_FAILED, True)
        huge = msgspec.json.encode({"subscriptionData": subscription("t", "x" * (1 << 20))})
        for asked in (client.ask(BROKER, CheckClientConfig(), huge), pull(client, sql="x" * 32_769)):
            code, remark = await refused(asked)
            assert (code, "at most 32768" in remark) == (Code.SUBSCRIPTION_PARSE_FAILED, True)
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "a > > 1")))
        assert (await refused(pull(client)))[0] == Code.FILTER_DATA_NOT_EXIST
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "a > 1", version=2)))
        assert (await refused(pull(client, version=3)))[0] == Code.SUBSCRIPTION_NOT_LATEST
        assert (await pull(client, version=2))[1] == 1
        for kind in ("TAG", "", None):
            right = msgspec.json.encode({"subscriptionData": {"expressionType": kind, "subString": "> >"}})
            await client.ask(BROKER, CheckClientConfig(), right)
        foreign = msgspec.json.encode({"subscriptionData": subscription("t", "a", "XPATH")})
        assert (await refused(client.ask(BROKER, CheckClientConfig(), foreign)))[0] == Code.SYSTEM_ERROR

    Stage(**ON).play(scenario)


def test_without_the_setting_selectors_are_refused_as_apache_does_by_default() -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await send(client, b"x", a="5")
        body = msgspec.json.encode({"subscriptionData": subscription("t", "a > 1")})
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "a > 1")))
        for asked in (client.ask(BROKER, CheckClientConfig(), body), pull(client), pull(client, sql="a > 1")):
            code, remark = await refused(asked)
            assert code == Code.SYSTEM_ERROR
            assert remark.startswith("The broker does not support consumer to filter message by SQL92")
        assert stage.broker is not None
        stage.broker.apply(replace(stage.settings, property_filter=True), stage.store_settings)
        assert await pull(client) == ([b"x"], 1)

    Stage().play(scenario)


@pytest.mark.parametrize(("retried_too", "expected"), [(True, [b"big", b"other"]), (False, [b"small"])])
def test_retried_messages_are_judged_by_their_first_topic_when_asked(
    retried_too: bool, expected: list[bytes]
) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        retry = "%RETRY%g"
        subscriptions = (subscription("t", "n > 5"), subscription(retry, "n < 5"))
        await client.ask(BROKER, Heartbeat(), heartbeat(*subscriptions))
        await send(client, b"small", retry, n="1", RETRY_TOPIC="t")
        await send(client, b"big", retry, n="9", RETRY_TOPIC="t")
        await send(client, b"other", retry, n="9", RETRY_TOPIC="never-subscribed")
        assert await pull(client, retry) == (expected, 3)

    Stage(**ON, filter_support_retry=retried_too).play(scenario)


@pytest.mark.parametrize("power_cut", [False, True])
def test_the_table_survives_a_crash_and_selectors_come_back_with_the_heartbeat(power_cut: bool) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        for number in range(6):
            await send(client, b"%d" % number, n=str(number))
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n >= 4", version=7)))
        await stage.pass_time(15)
        await stage.restart(power_cut=power_cut)
        async with connect(NAMESRV, stage.world.ports("127.0.0.6")) as fresh:
            await stage.pass_time(30)
            assert (await refused(pull(fresh)))[0] == Code.SUBSCRIPTION_NOT_EXIST
            await fresh.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "n >= 4", version=7)))
            assert await pull(fresh, version=7) == ([b"4", b"5"], 6)
            stored = stage.world.disk("127.0.0.3").read_file("/store/config/consumerFilter.json")
            assert b'"expression":"n >= 4"' in stored and b'"bitNum":112' in stored

    Stage(store={"flush_mode": FlushMode.SYNC}, **ON).play(scenario)


def test_conflicting_members_are_logged_counted_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.ask(BROKER, Heartbeat(), heartbeat(subscription("t", "A", "TAG")))
        async with connect(NAMESRV, stage.world.ports("127.0.0.6")) as other:
            for version in range(2, 6):  # it comes again and again: one line
                beat = heartbeat(subscription("t", "B", "TAG", version), client_id="c2")
                await other.ask(BROKER, Heartbeat(), beat)
                await stage.pass_time(2)
            lines = [line.getMessage() for line in caplog.records if "conflict" in line.getMessage()]
            assert len(lines) == 1
            assert all(word in lines[0] for word in ("group g", "t: ", "'A' by c1", "'B' by c2"))
            assert await runtime(client) == ("1", "1", "1")
            shown = await client.ask(BROKER, GetConsumerConnections("g"))
            assert msgspec.json.decode(shown.body)["subscriptionConflicts"] == {
                "t": [
                    {"clientIds": ["c1"], "expression": "A", "expressionType": "TAG"},
                    {"clientIds": ["c2"], "expression": "B", "expressionType": "TAG"},
                ]
            }
            await other.ask(BROKER, UnregisterClient("c2", None, "g"))
            await stage.pass_time(2)
        assert await runtime(client) == ("0", "0", "1")
        shown = await client.ask(BROKER, GetConsumerConnections("g"))
        assert "subscriptionConflicts" not in msgspec.json.decode(shown.body)

    async def runtime(client: Plain) -> tuple[str, str, str]:
        answer = await client.ask(BROKER, GetRuntimeInfo())
        table = msgspec.json.decode(answer.body)["table"]
        return (
            table["subscriptionConflictGroups"],
            table["subscriptionConflictTopics"],
            table["subscriptionConflictsSeen"],
        )

    with caplog.at_level(logging.WARNING, "roquet.broker"):
        Stage().play(scenario)
