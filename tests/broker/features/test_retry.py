"""The pure parts of retries: which level a try gets, what a message that was handed back becomes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.broker.core.dead_letters import NotDead, revive
from roquet.broker.features.retry.drafts import Target, group_of, hand_back
from roquet.broker.features.retry.policy import level_of
from roquet.model.group import RetryPolicy
from roquet.model.ids import offset_id
from roquet.model.message import Draft, Host, SysFlag, format_properties, parse_properties
from roquet.store.format import record
from roquet.store.format.record import Record
from roquet.store.settings import DELAY_LEVELS_MS

HOST = Host(b"\x7f\0\0\1", 10911)


def stored(topic: str, properties: dict[str, str], times: int = 0, sys_flag: int = 0) -> Record:
    text = format_properties(properties).encode()
    draft = Draft(topic, 2, b"body", text, 5, sys_flag, 1_000, HOST, times, 99)
    return record.decode(record.encode(draft, 7, 512, 2_000, HOST))


@given(st.integers(0, 15))
def test_a_group_without_a_policy_of_its_own_gets_three_levels_more_than_tries(times: int) -> None:
    for policy in (RetryPolicy(), RetryPolicy("EXPONENTIAL"), RetryPolicy("SOMETHING")):
        assert level_of(policy, times, DELAY_LEVELS_MS) == 3 + times


@pytest.mark.parametrize(
    ("policy", "levels"),
    [
        ({"initial": 1_000, "max": 600_000, "multiplier": 2}, [1, 2, 2, 3, 4, 5, 6]),
        ({"initial": 5_000, "max": 10_000, "multiplier": 10}, [2, 3, 3]),
        ({"initial": 10**12, "max": 10**12, "multiplier": 1}, [18, 18]),
        ({}, [2, 3, 4, 5]),
        ({"initial": "x", "max": None, "multiplier": -2}, [2, 3, 4, 5]),
    ],
)
def test_an_exponential_policy_gets_the_level_that_is_long_enough(
    policy: dict[str, Any], levels: list[int]
) -> None:
    given_policy = RetryPolicy("EXPONENTIAL", exponential_retry_policy=policy)
    assert [level_of(given_policy, times, DELAY_LEVELS_MS) for times in range(len(levels))] == levels
    assert level_of(given_policy, 10_000, DELAY_LEVELS_MS) >= levels[-1]


@pytest.mark.parametrize(
    ("waits", "levels"),
    [([1, 1, 60_000, 1_000], [5, 1, 1]), ([2_000], [2, 2]), ([], [3, 4]), ("no list", [1, 1])],
)
def test_a_customized_policy_begins_with_its_third_entry(waits: Any, levels: list[int]) -> None:
    policy = RetryPolicy("CUSTOMIZED", customized_retry_policy={"next": waits})
    assert [level_of(policy, times, DELAY_LEVELS_MS) for times in range(len(levels))] == levels


def test_a_message_that_was_handed_back_remembers_where_it_began() -> None:
    first = stored("orders", {"UNIQ_KEY": "U", "TAGS": "A", "WAIT": "true"}, sys_flag=1)
    draft, properties = hand_back(first, Target("%RETRY%g", 4, 3), store_v6=False)
    assert (draft.topic, draft.queue_id, draft.reconsume_times) == ("%RETRY%g", 4, 1)
    assert (draft.body, draft.flag, draft.sys_flag, draft.born_ms) == (b"body", 5, 1, 1_000)
    assert draft.prepared_log_offset == 0
    assert draft.tag_code == 65
    origin = offset_id(HOST, 512)
    history = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": origin, "WAIT": "false", "DELAY": "3"}
    assert properties == {"UNIQ_KEY": "U", "TAGS": "A"} | history
    assert parse_properties(draft.properties.decode()) == properties

    second = record.decode(record.encode(draft, 0, 9_000, 3_000, HOST))
    again, properties = hand_back(second, Target("%DLQ%g", 0, 0), store_v6=True)
    assert again.reconsume_times == 2
    assert again.sys_flag == 1 | SysFlag.STORE_HOST_V6
    kept = (properties["RETRY_TOPIC"], properties["ORIGIN_MESSAGE_ID"], properties["DELAY"])
    assert kept == ("orders", origin, "0")


@pytest.mark.parametrize(
    ("topic", "group"), [("%RETRY%g", "g"), ("%RETRY%g+orders", "g"), ("%RETRY%g_orders", "g_orders")]
)
def test_the_group_of_a_retry_topic(topic: str, group: str) -> None:
    assert group_of(topic) == group


def test_a_dead_letter_goes_back_to_its_first_topic_with_its_history() -> None:
    properties = {
        "UNIQ_KEY": "U", "KEYS": "k1 k2", "TAGS": "A", "mine": "x", "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": "AB", "DELAY": "0", "REAL_TOPIC": "%RETRY%g", "REAL_QID": "0",
        "TRAN_MSG": "true", "WAIT": "false",
    }  # fmt: skip
    dead = stored("%DLQ%g", properties, times=16, sys_flag=SysFlag.COMPRESSED | SysFlag.TRANSACTION_COMMIT)
    draft = revive(dead, queue_id=1)
    assert (draft.topic, draft.queue_id, draft.body, draft.reconsume_times) == ("orders", 1, b"body", 0)
    assert (draft.born_ms, draft.flag, draft.sys_flag) == (1_000, 5, SysFlag.COMPRESSED)
    assert parse_properties(draft.properties.decode()) == {
        "UNIQ_KEY": "U", "KEYS": "k1 k2", "TAGS": "A", "mine": "x", "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": "AB", "RECONSUME_TIME": "16", "DLQ_ORIGIN_TOPIC": "orders",
        "DLQ_ORIGIN_MESSAGE_ID": "AB",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "first"),
    [("orders", "orders"), ("%DLQ%g", ""), ("%DLQ%g", "../x"), ("%DLQ%g", "%RETRY%g"), ("%DLQ%g", "%DLQ%g")],
)
def test_what_is_no_dead_letter_is_not_revived(topic: str, first: str) -> None:
    with pytest.raises(NotDead):
        revive(stored(topic, {"RETRY_TOPIC": first}), 0)
