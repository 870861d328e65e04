"""Dispatch: what was appended becomes visible, in log order.

Runs right behind each write (ASYNC flush) or each sync (SYNC flush: nobody reads what a power cut could
take back), and again over recovered records. The order is fixed: queues, index, then listeners, so that
a listener that is woken by an entry can read it. It does not know bytes or files. Reference: Apache's
ReputMessageService, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from roquet.model.message import Entry
from roquet.store.commitlog import Waiting, has_queue_entry
from roquet.store.index import Index
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
        self.index_error = ""
        """Why the index is behind; new messages are refused as long as it is."""
        self._index_backlog: list[Entry] = []
        self._is_index_given_up = False

    def begin_at(self, log_offset: int, store_ms: int) -> None:
        self.offset = log_offset
        self.store_ms = store_ms

    def run(self, stored: Sequence[Waiting]) -> None:
        """Make these appends visible; they follow the last ones that were."""
        add = self._queues.add
        entries: list[Entry] = []
        for waiting in stored:
            for queue, entry in zip(waiting.queues, waiting.entries, strict=True):
                if has_queue_entry(entry.sys_flag) and not queue.is_gone:
                    assert queue.max_offset == entry.queue_offset, f"{queue.folder}: order of dispatch"
                    add(queue, entry.log_offset, entry.size_bytes, entry.tag_code)
            entries += waiting.entries
        self._tell(entries)
        self.offset = stored[-1].end_offset
        self.store_ms = entries[-1].store_ms

    def run_recovered(self, entries: Sequence[Entry]) -> None:
        """Pass recovered entries to the index and the listeners; recovery itself fills the queues."""
        self.index_recovered(entries)
        for listener in self._listeners:
            listener(entries)

    def index_recovered(self, entries: Sequence[Entry]) -> None:
        """Put entries that a start has read from the log; a full disk does not stop it."""
        if self._index is None or self._is_index_given_up:
            return
        try:
            self._index.put(entries)
        except OSError as error:
            self._is_index_given_up = True
            log.error(
                "the index cannot be rebuilt from %d on: %s; free space, delete its folder and restart",
                entries[0].log_offset,
                error,
            )

    def _tell(self, entries: Sequence[Entry]) -> None:
        if self._index is not None:
            self._index_backlog += entries
            self.retry_index()
        for listener in self._listeners:
            listener(entries)

    def retry_index(self) -> None:
        """Put what the index has not taken yet."""
        if self._index is None or not self._index_backlog:
            return
        try:
            self._index.put(self._index_backlog)
        except OSError as error:
            if not self.index_error:
                log.error("the index cannot be written: %s; free space there, nothing is lost", error)
            self.index_error = f"the index cannot be written: {error}; free space on its disk"
            return
        self._index_backlog = []
        if self.index_error:
            log.warning("the index can be written again")
            self.index_error = ""

    @property
    def is_index_behind(self) -> bool:
        return bool(self._index_backlog)
