"""The text of message traces, as Apache's tools read it; pure.

    Pub             when · region · group · topic · id · tag · keys · store host · body bytes · cost ms ·
                    kind · offset id · success
    SubBefore       when · region · group · request id · message id · retries · keys
    SubAfter        request id · message id · cost ms · success · keys · outcome · when · group
    EndTransaction  when · region · group · topic · id · tag · keys · store host · kind · transaction id ·
                    state · asked by the broker
    Recall          when · region · group · topic · id · success

Each begins with its name; 0x01 stands between fields, 0x02 ends a record, and what is absent is the word
null. Several records make the body of one message. Reference: TraceDataEncoder of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

FIELD: Final = "\x01"
END: Final = "\x02"

KINDS: Final = {"transaction": 1, "delay": 3, "order": 4}
"""Numbers of message kinds; any other is 0, a plain one. A transaction's end is 2."""
TRANSACTION_END: Final = 2

OUTCOMES: Final = {"ok": 0, "timeout": 1, "error": 2}
"""Numbers of consume outcomes; any other is 4, failed."""
FAILED: Final = 4

STATES: Final = {"commit": "COMMIT_MESSAGE", "rollback": "ROLLBACK_MESSAGE"}
UNKNOWN: Final = "UNKNOW"


class Told(NamedTuple):
    """One record and the words under which it can be found."""

    text: str
    keys: Sequence[str]


def sent(
    when_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tag: str,
    keys: Sequence[str],
    store_host: str,
    body_bytes: int,
    cost_ms: int,
    kind: str,
    offset_id: str,
    is_stored: bool,
) -> Told:
    """Tell of a message that was sent."""
    text = _record(
        "Pub", when_ms, region, group, topic, message_id, tag, " ".join(keys), store_host, body_bytes,
        cost_ms, KINDS.get(kind, 0), offset_id, is_stored,
    )  # fmt: skip
    return Told(text, (message_id, *keys))


def about_to_consume(
    when_ms: int, region: str, group: str, request_id: str, message_id: str, retries: int, keys: Sequence[str]
) -> Told:
    """Tell of a message that is handed to user code."""
    text = _record("SubBefore", when_ms, region, group, request_id, message_id, retries, " ".join(keys))
    return Told(text, (message_id, *keys))


def consumed(
    when_ms: int,
    group: str,
    request_id: str,
    message_id: str,
    cost_ms: int,
    outcome: str,
    keys: Sequence[str],
) -> Told:
    """Tell what user code made of a message."""
    number = OUTCOMES.get(outcome, FAILED)
    text = _record(
        "SubAfter", request_id, message_id, cost_ms, outcome == "ok", " ".join(keys), number, when_ms, group
    )
    return Told(text, (message_id, *keys))


def ended(
    when_ms: int,
    region: str,
    group: str,
    topic: str,
    message_id: str,
    tag: str,
    keys: Sequence[str],
    store_host: str,
    transaction_id: str,
    outcome: str,
    is_check: bool,
) -> Told:
    """Tell how a transaction ended."""
    state = STATES.get(outcome, UNKNOWN)
    text = _record(
        "EndTransaction", when_ms, region, group, topic, message_id, tag, " ".join(keys), store_host,
        TRANSACTION_END, transaction_id, state, is_check,
    )  # fmt: skip
    return Told(text, (message_id, *keys))


def recalled(when_ms: int, region: str, group: str, topic: str, message_id: str, is_recalled: bool) -> Told:
    """Tell of a delayed message that was taken back."""
    text = _record("Recall", when_ms, region, group, topic, message_id, is_recalled)
    return Told(text, (message_id,) if message_id else ())


def _record(*fields: str | int | bool) -> str:
    return FIELD.join([_shown(field) for field in fields]) + END


def _shown(field: str | int | bool) -> str:
    if isinstance(field, bool):
        return "true" if field else "false"
    # A tag with a separator in it would shift every field behind it; no send lets one through.
    return str(field) or "null"
