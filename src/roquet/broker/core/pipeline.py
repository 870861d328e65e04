"""The way of every message into the log: through the features, then into the store.

    draft ─▶ retry ▸ transaction ▸ timer ▸ delay … ─▶ store.append ─▶ done(result)
               each may leave it, rewrite it, rewrite it for good, or refuse it

Sends come this way, and so does what a feature puts back itself: a message whose delay is over, a
transaction that was committed, a retry. Such a message passes the features again, which is why a committed
transaction that is also delayed needs no special case. Never waits; answers through a callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from roquet.model.message import Draft
from roquet.model.properties import edit_properties
from roquet.model.status import Appended

NO_FIELDS: Mapping[str, str] = {}


class Rewrite(NamedTuple):
    """A draft as a feature wants it stored instead.

    `properties` are the draft's, parsed. `is_final` keeps later features away from it. `reply` are fields
    that the sender's answer carries besides the usual ones.
    """

    draft: Draft
    properties: Mapping[str, str]
    is_final: bool = False
    reply: Mapping[str, str] = NO_FIELDS


BeforeAppend = Callable[[Draft, Mapping[str, str]], Draft | Rewrite]
"""Returns the draft untouched, or a Rewrite; raises Refusal."""


class Prepared(NamedTuple):
    """A draft that has passed the features."""

    draft: Draft
    reply: Mapping[str, str]


class Log(Protocol):
    """What the pipeline needs of the store."""

    def append(self, drafts: Sequence[Draft], done: Callable[[Appended], None]) -> None: ...


class Pipeline:
    """Leads drafts through the features into the store."""

    def __init__(self, store: Log) -> None:
        self._store = store
        self.hooks: tuple[BeforeAppend, ...] = ()

    def prepare(self, draft: Draft, properties: Mapping[str, str]) -> Prepared:
        """Return the draft as the features want it stored; raises Refusal when one of them says no."""
        reply = NO_FIELDS
        for hook in self.hooks:
            outcome = hook(draft, properties)
            if outcome is draft:
                continue
            assert isinstance(outcome, Rewrite), "a feature returns the draft itself or a Rewrite"
            draft, properties = outcome.draft, outcome.properties
            reply = {**reply, **outcome.reply} if outcome.reply else reply
            if outcome.is_final:
                break
        return Prepared(draft, reply)

    def append(self, drafts: Sequence[Draft], done: Callable[[Appended], None]) -> None:
        """Store drafts that were prepared, all or none."""
        self._store.append(drafts, done)

    async def put(self, draft: Draft, properties: Mapping[str, str]) -> Appended:
        """Prepare and store one message of the broker's own and return what became of it."""
        return await self.store(self.prepare(draft, properties).draft)

    async def store(self, draft: Draft) -> Appended:
        """Store one message that was prepared and return what became of it."""
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()

        def done(result: Appended) -> None:
            if not future.done():
                future.set_result(result)

        self._store.append((draft,), done)
        return await future


def rewrite(
    draft: Draft,
    properties: Mapping[str, str],
    put: Mapping[str, str],
    *,
    drop: Collection[str] = (),
    topic: str,
    queue_id: int,
    sys_flag: int | None = None,
    is_final: bool = False,
    reply: Mapping[str, str] = NO_FIELDS,
) -> Rewrite:
    """Return a draft for another place, with some properties put and dropped.

    The text of the others is kept byte by byte: to write all of them anew would cost more than the rest.
    """
    changed = Draft(
        topic,
        queue_id,
        draft.body,
        edit_properties(draft.properties, put, drop),
        draft.flag,
        draft.sys_flag if sys_flag is None else sys_flag,
        draft.born_ms,
        draft.born_host,
        draft.reconsume_times,
        draft.prepared_log_offset,
        draft.tag_code,
        draft.keys,
    )
    seen = {**properties, **put}
    for name in drop:
        seen.pop(name, None)
    return Rewrite(changed, seen, is_final, reply)
