"""File what the index lacks after a start: the part of the log behind it that recovery has not read anyway.

Runs once, blocking, between recovery and the first message. Knows the log only through `LogScan`.
"""

from __future__ import annotations

import logging

from roquet.store.checkpoint import Checkpoint
from roquet.store.dispatch import Dispatch
from roquet.store.index import Index
from roquet.store.index_vouch import vouched_ms
from roquet.store.logscan import LogScan
from roquet.store.segments import Segments
from roquet.store.settings import StoreSettings

log = logging.getLogger("roquet.store")

INDEX_REBUILD_BYTES_MAX = 16 << 30
"""Log that is read again for the index alone, at a start: a minute or so; more only when told to."""


def refill_index(
    index: Index | None,
    segments: Segments,
    checkpoint: Checkpoint,
    dispatch: Dispatch,
    settings: StoreSettings,
    scanned_from: int,
    is_clean: bool,
) -> None:
    """File the part of the log that lies behind the index and before what recovery has read."""
    if index is None or segments.is_empty:
        return
    sure_ms = vouched_ms(index, segments)
    if checkpoint.index_ms > sure_ms:
        # The current file grows from now on: a time within it would cost its entries in Apache's hands.
        checkpoint.index_ms = sure_ms
        checkpoint.flush_now()
    if index.rebuild_from is None and is_clean:
        return
    # After a crash a whole file may be missing, and nothing in the others tells of it.
    start = segments.start_of(max(index.last_log_offset, segments.min_offset))
    missing = scanned_from - start
    if missing <= 0:
        return
    if missing > INDEX_REBUILD_BYTES_MAX and not settings.message_index_safe:
        log.warning(
            "the index does not cover %d bytes of the log from %d on: queries by key will not find them; "
            "start with messageIndexSafe=true to rebuild it",
            missing, start,
        )  # fmt: skip
        return
    log.info("rebuilding the index from %d to %d", start, scanned_from)
    for stretch in LogScan(segments, settings).records(start, scanned_from):
        dispatch.index_recovered(stretch)
