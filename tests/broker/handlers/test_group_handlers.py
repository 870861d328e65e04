"""Administration of groups: what is created, refused, listed, forbidden and deleted."""

from __future__ import annotations

import json

import pytest

from roquet.model.group import Group
from roquet.wire.requests.groups import (
    DeleteGroup,
    GetAllGroups,
    GetGroup,
    UpdateForbidden,
    UpdateGroup,
    UpdateGroups,
)
from tests.broker.handlers.desk import Desk

# What a tool of 5.5.0 sent (tests/golden/frames/200-…).
DOOMED = (
    b'{"groupName":"golden_doomed","consumeEnable":true,"retryQueueNums":1,"retryMaxTimes":16,"brokerId":0,'
    b'"whichBrokerWhenConsumeSlowly":1}'
)
SHOWN = (
    b'{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
    b'"consumeFromMinEnable":true,"consumeMessageOrderly":false,"consumeTimeoutMinute":15,'
    b'"groupName":"golden_doomed","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,'
    b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
    b'"whichBrokerWhenConsumeSlowly":1}'
)


def test_a_group_is_created_and_shown_as_apache_shows_it() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            assert (await desk.ask(UpdateGroup(), DOOMED)).code == 0
            assert (await desk.ask(GetGroup("golden_doomed"))).body == SHOWN
            changed = json.loads(DOOMED) | {"retryMaxTimes": 3, "consumeEnable": False}
            await desk.ask(UpdateGroup(), json.dumps(changed).encode())
            assert desk.groups.table["golden_doomed"].retry_max_times == 3
            assert not desk.groups.table["golden_doomed"].consume_enable

        desk.run(scenario())


def test_asking_for_an_unknown_group_makes_it_where_that_is_allowed() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            assert (await desk.ask(GetGroup("golden_newborn"))).code == 0
            assert desk.groups.get("golden_newborn") is not None
            desk.groups.auto_create = False
            refused = await desk.ask(GetGroup("ghost"))
            assert (refused.code, refused.remark) == (26, "No group in this broker")
            assert (await desk.ask(GetGroup("bad group!"))).code == 26

        desk.run(scenario())


@pytest.mark.parametrize(
    ("body", "code", "remark"),
    [
        (
            DOOMED.replace(b"golden_doomed", b"bad group!"),
            29,
            "The specified group: bad group!, contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        (DOOMED.replace(b"golden_doomed", b""), 29, "The specified group is blank."),
        (DOOMED.replace(b"golden_doomed", b"g" * 121), 29, None),
        (DOOMED.replace(b'"retryQueueNums":1', b'"retryQueueNums":-1'), 29, None),
        (b'{"groupName":"g","attributes":{"+no.such":"x"}}', 1, "unsupported key: no.such"),
        (b"", 1, None),
        (b"{}", 1, None),
        (b"[1]", 1, None),
    ],
)
def test_a_group_that_cannot_be_is_refused(body: bytes, code: int, remark: str | None) -> None:
    with Desk() as desk:

        async def scenario() -> None:
            before = dict(desk.groups.table)
            answer = await desk.ask(UpdateGroup(), body)
            assert answer.code == code
            assert answer.remark if remark is None else answer.remark == remark
            assert desk.groups.table == before

        desk.run(scenario())


def test_a_list_is_taken_whole_or_not_at_all() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            body = b'{"groupConfigList":[{"groupName":"one"},{"groupName":"bad group!"}]}'
            assert (await desk.ask(UpdateGroups(), body)).code == 29
            assert desk.groups.get("one") is None
            body = b'{"groupConfigList":[{"groupName":"one"},{"groupName":"two"}]}'
            assert (await desk.ask(UpdateGroups(), body)).code == 0
            assert desk.groups.get("two") == Group(group_name="two")

        desk.run(scenario())


def test_all_groups_come_whole_or_by_pages() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            desk.groups.set_may_read("TOOLS_CONSUMER", "orders", False)
            everything = await desk.ask(GetAllGroups())
            body = json.loads(everything.body)
            assert everything.ext == {"totalGroupNum": "8"}
            assert body["forbiddenTable"] == {"TOOLS_CONSUMER": {"orders": 1}}
            page = json.loads((await desk.ask(GetAllGroups(0, 2))).body)
            assert list(page["subscriptionGroupTable"]) == sorted(desk.groups.table)[:2]
            assert page["forbiddenTable"] == {}

        desk.run(scenario())


def test_deleting_a_group_keeps_its_offsets_unless_told() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            desk.groups.put(Group(group_name="g"))
            desk.offsets.commit("g", "orders", 0, 5)
            assert (await desk.ask(DeleteGroup("g"))).code == 0
            assert desk.groups.get("g") is None
            assert desk.offsets.query("g", "orders", 0) == 5
            assert (await desk.ask(DeleteGroup("g", True))).code == 0
            assert desk.offsets.query("g", "orders", 0) is None

        desk.run(scenario())


def test_forbidding_shows_the_state_and_changes_it_when_told() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            shown = await desk.ask(UpdateForbidden("g", "orders"))
            assert shown.body == b'{"group":"g","readable":true,"topic":"orders"}'
            forbidden = await desk.ask(UpdateForbidden("g", "orders", False))
            assert forbidden.body == b'{"group":"g","readable":false,"topic":"orders"}'
            assert not desk.groups.may_read("g", "orders")
            await desk.ask(UpdateForbidden("g", "orders", True))
            assert desk.groups.may_read("g", "orders")
            assert (await desk.ask(UpdateForbidden("g", "../x", False))).code == 29

        desk.run(scenario())
