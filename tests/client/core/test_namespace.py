"""Names inside a namespace, as the servers see them and as users do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.client.core.namespace import unwrap, wrap


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "shop%orders"),
        ("%RETRY%billing", "%RETRY%shop%billing"),
        ("%DLQ%billing", "%DLQ%shop%billing"),
        ("shop%orders", "shop%orders"),
        ("%RETRY%shop%billing", "%RETRY%shop%billing"),
        ("TBW102", "TBW102"),
        ("SCHEDULE_TOPIC_XXXX", "SCHEDULE_TOPIC_XXXX"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("TOOLS_CONSUMER", "TOOLS_CONSUMER"),
        ("", ""),
        ("%RETRY%", "%RETRY%"),
    ],
)
def test_wrapped_names(name: str, wrapped: str) -> None:
    assert wrap("shop", name) == wrapped
    assert wrap("", name) == name


@pytest.mark.parametrize(
    ("wrapped", "name"),
    [
        ("shop%orders", "orders"),
        ("%RETRY%shop%billing", "%RETRY%billing"),
        ("other%orders", "other%orders"),
        ("shopping%orders", "shopping%orders"),
        ("TBW102", "TBW102"),
    ],
)
def test_unwrapped_names(wrapped: str, name: str) -> None:
    assert unwrap("shop", wrapped) == name
    assert unwrap("", wrapped) == wrapped


@given(st.from_regex(r"(%RETRY%|%DLQ%|)[a-z]{1,9}", fullmatch=True))
def test_there_and_back(name: str) -> None:
    assert unwrap("ns", wrap("ns", name)) == name
    assert wrap("ns", wrap("ns", name)) == wrap("ns", name)
