"""What the checkpoint says of the index, for Apache's broker: a store that was killed keeps its keys there.

    index files    |--- full, on disk ---|--- full ---|--- current --     Apache deletes what ends after the
                                         ▲ vouched_ms                     checkpoint's index time, and files
    log files      |------|------|------|------|------|---                the log again from the last log
                                     ▲ read again from here               file that begins no later than it

So only the end of a file that is full and on disk may be said: a time within one deletes it whole and files
a part of it again. Apache does so with messageIndexSafe=true, over at most commitLogRecoverMaxNum log files;
otherwise it files from the queues' place in the checkpoint on, and gives up the rest of what it deletes.
Our own recovery needs none of this. Reference: IndexService.load and CommitLog.recoverAbnormally, 5.5.0.
"""

from __future__ import annotations

from roquet.store.format.index_page import Header
from roquet.store.index import Index
from roquet.store.logscan import first_store_ms
from roquet.store.segments import Segments


def vouched_ms(index: Index, segments: Segments) -> int:
    """Return the end of the newest index file that can be vouched for; 0 when there is none."""
    for header in reversed(index.finished):
        if not _is_passed_over(header, segments):
            return header.end_ms
    return 0


def _is_passed_over(header: Header, segments: Segments) -> bool:
    """Return whether the log would be read again only from a place behind the end of this index file.

    That is so when the next log file begins in the millisecond in which the index file ends.
    """
    start = segments.start_of(header.end_log_offset) + segments.file_size_bytes
    if not segments.min_offset <= start < segments.end_capacity:
        return False
    return 0 < first_store_ms(segments, start) <= header.end_ms
