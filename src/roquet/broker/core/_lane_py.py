"""Sends, many at a time: the readable twin, which is the specification of `_lane_c`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roquet.broker.core._lane_values import Run, Terms
from roquet.broker.core._redraft_values import keys_of, tag_code_of
from roquet.model.message import PAIR_SEPARATOR, Draft, Host, parse_properties
from roquet.wire.codes import FLAG_ONE_WAY
from roquet.wire.frame import JSON, Frame, reply_head

_INT32_MAX = 2**31 - 1
_NUMBER_CHARS_MAX = 18
"""Longer numbers are possible and never ordinary."""


def drafts(
    frames: Sequence[Frame], start: int, code: int, topics: Mapping[str, int], born: Host, terms: Terms
) -> Run:
    """Return the drafts of the regular sends from `start` on, up to the first frame that is not one."""
    run = Run([], [])
    for frame in frames[start:]:
        found = _draft(frame, topics, born, terms) if frame.code == code else None
        if found is None:
            break
        draft, properties = found
        if draft.sys_flag & terms.mark_flags or not terms.marks.isdisjoint(properties):
            run.marked.append((len(run.drafts), properties))
        run.drafts.append(draft)
    return run


def _draft(
    frame: Frame, topics: Mapping[str, int], born: Host, terms: Terms
) -> tuple[Draft, dict[str, str]] | None:
    """Return what a send wants stored, and its properties; None when it takes more than a glance to say."""
    ext = frame.ext
    topic, text = ext.get("b"), ext.get("i")
    if topic is None or text is None or "a" not in ext or "c" not in ext:
        return None
    numbers = [_number(ext.get(name)) for name in ("d", "e", "f", "g", "h")]
    queue_count = topics.get(topic, 0)
    if ext.get("m", "false") != "false" or ext.get("j", "0") != "0" or None in numbers:
        return None
    template_queues, queue_id, sys_flag, born_ms, flag = (number or 0 for number in numbers)
    if max(template_queues, sys_flag, flag) > _INT32_MAX or sys_flag & terms.odd_flags:
        return None
    if queue_id >= queue_count or len(frame.body) > terms.body_bytes_max:
        return None
    if not text.isascii() or len(text) > terms.properties_bytes_max or not text.endswith(PAIR_SEPARATOR):
        return None
    properties = parse_properties(text)
    if text.count(PAIR_SEPARATOR) != len(properties) or text.count("\x01") != len(properties):
        return None
    if "UNIQ_KEY" not in properties or not terms.odd_names.isdisjoint(properties):
        return None
    if properties.get("WAIT", "true") != "true":
        return None
    draft = Draft(
        topic,
        queue_id,
        frame.body,
        text.encode() + terms.own_properties,
        flag,
        sys_flag | terms.host_flags,
        born_ms,
        born,
        0,
        0,
        tag_code_of(properties),
        keys_of(properties),
    )
    return draft, properties


def _number(text: str | None) -> int | None:
    """Return a plain number without a sign; None for anything else."""
    if text is None or not 0 < len(text) <= _NUMBER_CHARS_MAX or not text.isascii() or not text.isdigit():
        return None
    return int(text)


def replies(
    frames: Sequence[Frame],
    start: int,
    drafts: Sequence[Draft],
    log_offsets: Sequence[int],
    queue_offsets: Sequence[int],
    code: int,
    remark: str,
    terms: Terms,
    handles: Mapping[int, str],
) -> bytes:
    """Return the answers to a run of sends that were stored, one behind the other.

    `drafts` are the messages as they were sent; `handles` has, by their numbers, what recalls some of them.
    """
    answers = []
    for number, draft in enumerate(drafts):
        frame = frames[start + number]
        if frame.flag & FLAG_ONE_WAY:
            continue
        ext = {
            "msgId": f"{terms.id_prefix}{log_offsets[number]:016X}",
            "queueId": str(draft.queue_id),
            "queueOffset": str(queue_offsets[number]),
            "transactionId": draft.keys[0],
            **({"recallHandle": handles[number]} if number in handles else {}),
            "MSG_REGION": terms.region,
            "TRACE_ON": terms.trace_on,
        }
        answers.append(reply_head(code, frame.opaque, ext, remark, 0, JSON))
    return b"".join(answers)
