"""Pull answers cut into messages."""

from __future__ import annotations

import pytest

from roquet.client.core.pages import BadPage, messages_of, records_of, with_tags
from roquet.model.message import Draft, Host
from roquet.store.format import record

HOST = Host(b"\x7f\0\0\1", 10911)


def page(*messages: tuple[str, bytes, bytes]) -> bytes:
    return b"".join(
        record.encode(Draft(topic, 0, body, properties, 0, 0, 0, HOST), number, 100 * number, 0, HOST)
        for number, (topic, body, properties) in enumerate(messages)
    )


def test_a_page_is_cut_into_messages() -> None:
    records = records_of(page(("t", b"one", b"TAGS\x01A\x02"), ("t", b"two", b"TAGS\x01B\x02")))
    one, two = messages_of(records, "broker-a", None)
    assert (one.body, one.tag, two.body, two.queue_offset, two.broker) == (b"one", "A", b"two", 1, "broker-a")
    assert [each.body for each in with_tags(records, {b"B"})] == [b"two"]


@pytest.mark.parametrize("cut", [1, 60, 100])
def test_a_page_that_is_cut_short_is_refused(cut: int) -> None:
    whole = page(("t", b"one" * 30, b""))
    with pytest.raises(BadPage):
        records_of(whole[:cut])


def test_in_a_namespace_topics_lose_its_prefix() -> None:
    data = page(("ns%t", b"", b""), ("%RETRY%ns%g", b"", b"RETRY_TOPIC\x01ns%t\x02"), ("other", b"", b""))
    assert [each.topic for each in messages_of(records_of(data), "b", None, "ns")] == ["t", "t", "other"]
