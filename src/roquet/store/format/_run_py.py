"""Runs of drafts in plain Python: the specification of the compiled twin."""

from __future__ import annotations

from collections.abc import Sequence

from roquet.model.message import Draft, Entry, Host, SysFlag
from roquet.store.format._record_py import describe, encode, encode_with_crc
from roquet.store.format._record_values import DELAY_TOPIC
from roquet.store.format._run_values import Share, Shared

_PREPARED = int(SysFlag.TRANSACTION_PREPARED)


def share_out(drafts: Sequence[Draft]) -> Shared:
    """Return the drafts of a run by queue; shares come in the order of their first drafts."""
    numbers: dict[tuple[str, int, bool], int] = {}
    shares: list[Share] = []
    owners: list[int] = []
    for draft in drafts:
        place = draft.topic, draft.queue_id, not draft.sys_flag & _PREPARED
        number = numbers.setdefault(place, len(numbers))
        if number == len(shares):
            shares.append(Share(*place, 0, 0, 0))
        _, _, _, count, body_max, properties_max = shares[number]
        sizes = max(body_max, len(draft.body)), max(properties_max, len(draft.properties))
        shares[number] = Share(*place, count + 1, *sizes)
        owners.append(number)
    return Shared(shares, owners)


def lay_out(
    drafts: Sequence[Draft],
    queue_offsets: Sequence[int],
    log_offset: int,
    store_ms: int,
    store_host: Host,
    delays_ms: Sequence[int],
    with_crc: bool,
) -> tuple[bytes, list[Entry]]:
    """Return the records of a run that begins at `log_offset`, and their entries."""
    encode_one = encode_with_crc if with_crc else encode
    parts: list[bytes] = []
    entries: list[Entry] = []
    for draft, queue_offset in zip(drafts, queue_offsets, strict=True):
        part = encode_one(draft, queue_offset, log_offset, store_ms, store_host)
        tag_code = draft.tag_code
        if draft.topic == DELAY_TOPIC:
            # The entry carries the time of delivery, counted from the store time: the same rule that
            # rebuilds it after a crash.
            tag_code, _ = describe(draft.topic, draft.properties, store_ms, delays_ms)
        entries.append(
            Entry(
                log_offset,
                len(part),
                draft.topic,
                draft.queue_id,
                queue_offset,
                tag_code,
                store_ms,
                draft.sys_flag,
                draft.prepared_log_offset,
                draft.keys,
                draft.properties,
            )  # fmt: skip
        )
        parts.append(part)
        log_offset += len(part)
    return b"".join(parts), entries
