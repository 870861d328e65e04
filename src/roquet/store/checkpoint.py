"""The checkpoint file: what recovery may trust after a crash.

Whoever has synced something raises the number here; `flush` puts the numbers on disk, always after
the data that they speak of. All six lie in one sector, so a power cut leaves the old ones or the new
ones. It knows nothing of the files that it vouches for. Layout: `format.checkpoint`.
"""

from __future__ import annotations

import logging

from roquet.ports import Disk, File
from roquet.store.format.checkpoint import (
    FILE_SIZE_BYTES,
    CheckpointPage,
    decode_checkpoint,
    encode_checkpoint,
)

log = logging.getLogger(__name__)

# Apache goes back this far behind the older of both times: clocks and flushes are not exact.
SAFETY_MS = 3000


class Checkpoint:
    """Six numbers with a file behind them. Change them freely, then `flush`."""

    __slots__ = (
        "_disk",
        "_file",
        "_path",
        "confirm_offset",
        "index_ms",
        "log_ms",
        "master_flushed_offset",
        "queues_log_offset",
        "queues_ms",
    )

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._take(CheckpointPage())

    def load(self) -> None:
        """Read the file; one that is absent, short or senseless counts as zeros: recovery reads more."""
        try:
            page = decode_checkpoint(self._disk.read_file(self._path))
        except FileNotFoundError:
            page = CheckpointPage()
        if min(page) < 0:
            log.warning("%s holds negative numbers (%s): starting from zeros", self._path, page)
            page = CheckpointPage()
        self._take(page)

    def _take(self, page: CheckpointPage) -> None:
        self.log_ms = page.log_ms
        self.queues_ms = page.queues_ms
        self.index_ms = page.index_ms
        self.master_flushed_offset = page.master_flushed_offset
        self.confirm_offset = page.confirm_offset
        self.queues_log_offset = page.queues_log_offset

    @property
    def page(self) -> CheckpointPage:
        return CheckpointPage(
            self.log_ms,
            self.queues_ms,
            self.index_ms,
            self.master_flushed_offset,
            self.confirm_offset,
            self.queues_log_offset,
        )

    @property
    def min_ms(self) -> int:
        """Store time before which log and queues are surely on disk."""
        return max(0, min(self.log_ms, self.queues_ms) - SAFETY_MS)

    async def flush(self) -> None:
        """Put the numbers on disk as they are now; raises OSError."""
        await self._written().sync()

    def flush_now(self) -> None:
        """Like `flush`, blocking: for start-up and shutdown only."""
        self._written().sync_now()

    def close(self) -> None:
        """Close the file without flushing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _written(self) -> File:
        file = self._file
        if file is None:
            file = self._opened()
        file.write_at(0, encode_checkpoint(self.page))
        return file

    def _opened(self) -> File:
        folder = self._path.rpartition("/")[0]
        is_new = not self._disk.exists(self._path)
        file = self._disk.open(self._path, FILE_SIZE_BYTES)
        if file.size_bytes != FILE_SIZE_BYTES:
            # A crash before the first sync can leave the name without the length.
            file.close()
            self._disk.write_file(self._path, bytes(FILE_SIZE_BYTES))
            file = self._disk.open(self._path)
        if is_new:
            self._disk.sync_dir(folder)
        self._file = file
        return file
