"""Dispatch: what was appended becomes visible, in log order.

Runs right behind each write (ASYNC flush) or each sync (SYNC flush: nobody reads what a power cut could
take back), and again over recovered records. The order is fixed: queues, index, then listeners, so that
a listener that is woken by an entry can read it. An index that cannot be written stops nobody here. It does
not know bytes or files. Reference: Apache's ReputMessageService, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from roquet.model.message import Entry
from roquet.store.commitlog import Waiting
from roquet.store.format.entries import queue_rows
from roquet.store.index import Index
from roquet.store.logscan import Stretch
from roquet.store.queues import Queues

log = logging.getLogger("roquet.store")

Listener = Callable[[Sequence[Entry]], None]


class Dispatch:
    """The way from the log to everything that is derived from it."""

    def __init__(self, queues: Queues, index: Index | None, listeners: list[Listener]) -> None:
        self._queues = queues
        self._index = index
        self._listeners = listeners
        self.offset = 0
        """Everything in the log before it is dispatched."""
        self.store_ms = 0
        """Store time of the last dispatched message."""

    def begin_at(self, log_offset: int, store_ms: int) -> None:
        self.offset = log_offset
        self.store_ms = store_ms

    def run(self, stored: Sequence[Waiting]) -> None:
        """Make these appends visible; they follow the last ones that were."""
        entries: list[Entry] = []
        for waiting in stored:
            self._enqueue(waiting)
            entries += waiting.entries
        self._tell(entries)
        self.offset = stored[-1].end_offset
        self.store_ms = entries[-1].store_ms

    def _enqueue(self, waiting: Waiting) -> None:
        """Make the entries of an append visible as the next ones of their queues."""
        queues, places = self._queues, waiting.places
        for queue, _, is_queued, first_offset in places:
            if is_queued and not queue.is_gone:
                assert queue.max_offset == first_offset, f"{queue.folder}: order of dispatch"
        if queues.is_extending:
            for entry, owner in zip(waiting.entries, waiting.owners, strict=True):
                queue, _, is_queued, _ = places[owner]
                if is_queued and not queue.is_gone:
                    queues.add(queue, entry.log_offset, entry.size_bytes, queues.note(queue, entry))
            return
        rows = queue_rows(waiting.entries, waiting.owners, [place.message_count for place in places])
        for (queue, _, is_queued, _), some in zip(places, rows, strict=True):
            if is_queued and not queue.is_gone:
                queues.extend(queue, some)

    def run_recovered(self, stretch: Stretch) -> None:
        """Pass recovered records to the index and the listeners; recovery itself fills the queues."""
        self.index_recovered(stretch)
        for listener in self._listeners:
            listener(stretch)

    def index_recovered(self, stretch: Stretch) -> None:
        """File records that a start has read from the log."""
        if self._index is not None:
            self._index.put_rows(stretch.survey.key_rows)

    def _tell(self, entries: Sequence[Entry]) -> None:
        if self._index is not None:
            self._index.put(entries)
        for listener in self._listeners:
            listener(entries)
