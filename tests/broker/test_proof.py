"""The proof of SYNC_FLUSH in the simulation is worth something: without the sync, the same test fails.

It runs the power-cut test of test_broker on a disk where syncing the log does nothing. The real process has
the same counter-proof in tests/process/test_sync_trace.
"""

from __future__ import annotations

import pytest

from roquet.sim.disk import SimFile
from roquet.store.settings import FlushMode
from tests.broker import test_broker


def leave_out_the_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make syncs of the log succeed without an effect; the small tables are still synced."""
    sync = SimFile._finish_sync

    def finish(self: SimFile, flushed: dict[int, bytes], size: int) -> None:
        sync(self, {} if "/commitlog/" in self.path else flushed, size)

    monkeypatch.setattr(SimFile, "_finish_sync", finish)


def test_a_disk_that_does_not_sync_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out_the_sync(monkeypatch)
    with pytest.raises(AssertionError) as found:
        test_broker.test_what_was_acknowledged_survives_as_the_flush_mode_promises(FlushMode.SYNC)
    assert "acknowledged.items() <= found.items()" in str(found.traceback[-1].statement)


def test_a_killed_process_needs_no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page cache outlives the process: what fails above is the power cut, and nothing else."""
    leave_out_the_sync(monkeypatch)
    test_broker.test_what_was_acknowledged_survives_as_the_flush_mode_promises(FlushMode.ASYNC)
