"""The files under config/ that features own: loaded at start, saved when they changed and are due."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from roquet.broker.core.table_hook import TableHook
from roquet.ports import Disk
from roquet.store.tables import Table

log = logging.getLogger("roquet.broker")


class FeatureTables:
    """Keeps the tables of all features; a disk that refuses one is asked again at the next round."""

    def __init__(self, disk: Disk, config_dir: str, hooks: Sequence[TableHook]) -> None:
        self._entries = [(hook, Table(disk, f"{config_dir}/{hook.file_name}")) for hook in hooks]
        self._due = [0.0] * len(self._entries)

    def load(self) -> None:
        """Give every feature what its file holds."""
        for hook, table in self._entries:
            stored = table.load()
            if stored is not None:
                hook.load(stored)

    def save_due(self, now: float) -> None:
        """Save the tables that changed and whose period is over."""
        for number, (hook, table) in enumerate(self._entries):
            if now >= self._due[number]:
                self._due[number] = now + hook.period_s
                self._save(hook, table)

    def save_all(self) -> None:
        """Save whatever changed, at the stop."""
        for hook, table in self._entries:
            self._save(hook, table)

    def _save(self, hook: TableHook, table: Table) -> None:
        if not hook.is_changed():
            return
        try:
            table.save(hook.dump())
        except OSError as error:
            log.error(
                "config/%s could not be saved: %s; tried again with its next change", hook.file_name, error
            )
            return
        hook.saved()
