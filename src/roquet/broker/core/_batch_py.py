"""Batches: the readable twin, which is the specification of `_batch_c`."""

from __future__ import annotations

from roquet.broker.core._lane_values import Run
from roquet.broker.core._redraft_values import keys_of, tag_code_of
from roquet.model.message import Draft, parse_properties
from roquet.wire.bodies.batch import split_batch


def drafts(body: bytes, shared: Draft, marks: frozenset[str], is_marked: bool) -> Run:
    """Return a draft for each message of a batch, and those that features must see.

    `shared` is a draft with what they have in common. `marks` are the properties that features act on; with
    `is_marked` every message must be seen. Raises BatchError.
    """
    run = Run([], [])
    for item in split_batch(body):
        draft, properties = draft_of(item.flag, item.body, item.properties, shared)
        if is_marked or not marks.isdisjoint(properties):
            run.marked.append((len(run.drafts), properties))
        run.drafts.append(draft)
    return run


def draft_of(flag: int, body: bytes, text: bytes, shared: Draft) -> tuple[Draft, dict[str, str]]:
    """Return the draft of one message, which keeps the bytes of its properties, and the properties."""
    properties = parse_properties(text.decode(errors="replace"))
    draft = Draft(
        shared.topic,
        shared.queue_id,
        body,
        text,
        flag,
        shared.sys_flag,
        shared.born_ms,
        shared.born_host,
        shared.reconsume_times,
        shared.prepared_log_offset,
        tag_code_of(properties),
        keys_of(properties),
    )
    return draft, properties
