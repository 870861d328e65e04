"""Members of a group that do not subscribe alike."""

from __future__ import annotations

from roquet.broker.core.conflicts import View, conflicts_of
from roquet.broker.core.sessions import ConsumerData, Sessions
from roquet.model.group import Subscription


class Wire:
    """A channel that is only itself."""

    peer = ("127.0.0.1", 1)


def joined(*members: tuple[str, dict[str, str]]) -> dict[str, list[View]]:
    """Return the conflicts of a group whose members subscribe (topic: expression), SQL where it has a =."""
    sessions = Sessions()
    for client_id, wanted in members:
        subscriptions = tuple(
            Subscription(
                topic=topic, sub_string=text, sub_version=len(client_id), expression_type=_kind(text)
            )
            for topic, text in wanted.items()
        )
        data = ConsumerData("g", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", subscriptions)
        sessions.join_consumer(data, Wire(), client_id, "JAVA", 500, 0.0)
    return conflicts_of(sessions.consumers["g"])


def _kind(text: str) -> str:
    return "SQL92" if "=" in text else "TAG"


def test_members_that_agree_are_no_conflict() -> None:
    assert joined(("c1", {"t": "A || B"}), ("c22", {"t": "B||A"}), ("c333", {"t": " A || B "})) == {}
    assert joined(("c1", {"t": "*"}), ("c22", {"t": ""})) == {}
    assert joined(("c1", {"t": "a = 1"}), ("c22", {"t": "a = 1"})) == {}
    assert joined(("c1", {"t": "A"})) == {}


def test_retry_topics_and_members_without_subscriptions_do_not_count() -> None:
    assert joined(("c1", {"t": "A", "%RETRY%g": "*"}), ("c2", {"t": "A"}), ("by-hand", {})) == {}


def test_other_tags_other_kinds_and_missing_topics_are_conflicts() -> None:
    found = joined(("c1", {"t": "A", "u": "*"}), ("c2", {"t": "B", "u": "*"}), ("c3", {"t": "A", "u": "*"}))
    assert found == {"t": [View("TAG", "A", ("c1", "c3")), View("TAG", "B", ("c2",))]}
    assert list(joined(("c1", {"t": "a = 1"}), ("c2", {"t": "a = 2"}))) == ["t"]
    found = joined(("c1", {"t": "A"}), ("c2", {"u": "A"}))
    assert found["t"] == [View("TAG", "A", ("c1",)), View("", "", ("c2",))]
    assert list(found) == ["t", "u"]
