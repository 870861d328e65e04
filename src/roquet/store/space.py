"""Space ahead of the log's writer: real blocks reserved in steps, the next file made before it is needed.

Runs in the background behind the writes; when it comes late the writer simply goes on without. A disk
without room shows here first, as a warning; the write that fails is what refuses messages. It does not
know records.
"""

from __future__ import annotations

import asyncio
import logging

from roquet.store.segments import Segments, StoreDamaged

log = logging.getLogger("roquet.store")

STEP_BYTES = 64 * 1024 * 1024
"""How much is reserved at once: a second or less of writing at full speed."""

RETRIES_A_STEP = 8
"""How often a refused reservation is tried again while the writer goes on for the length of a step."""


class SpaceAhead:
    """Keeps between one and two steps of reserved bytes in front of the writer."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._step = min(STEP_BYTES, segments.file_size_bytes)
        self._reserved = 0
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False
        self._retry_from = 0

    def follow(self, written_offset: int) -> None:
        """Start reserving when the writer has come near to the end of what is reserved."""
        if written_offset < self._retry_from or (self._task is not None and not self._task.done()):
            return
        if self._reserved - written_offset < self._step:
            self._task = asyncio.get_running_loop().create_task(self._reserve(written_offset))

    async def _reserve(self, written_offset: int) -> None:
        start = max(self._reserved, written_offset)
        stop = written_offset + 2 * self._step
        stop -= stop % self._step
        try:
            self._segments.ensure_durable(stop - 1)
            await self._segments.reserve(start, stop - start)
        except (OSError, StoreDamaged) as error:
            if not self._is_failing:
                path = self._segments.path_of(start)
                log.warning("cannot reserve space for the log in %s: %s; free space there", path, error)
            self._is_failing = True
            self._retry_from = written_offset + self._step // RETRIES_A_STEP
            return
        self._is_failing = False
        self._reserved = stop

    async def close(self, written_offset: int) -> None:
        """Stop, and delete the file that was made ahead and holds nothing."""
        if self._task is not None:
            await self._task
        if written_offset > self._segments.min_offset:
            self._segments.truncate_files_after(written_offset)
