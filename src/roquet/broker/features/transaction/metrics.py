"""config/transactionMetrics: how many transactions of each topic are undecided, as Apache keeps it.

Counted anew from the ledger each second, so nothing of an older file is needed but its version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from roquet.broker.core.table_hook import TableHook
from roquet.model.topic import DataVersion

FILE_NAME: Final = "transactionMetrics"
SAVE_SECONDS: Final = 10.0


class _Stored(msgspec.Struct, rename="camel"):
    """What is read of the file."""

    data_version: DataVersion = DataVersion()


class Metrics:
    """The counts, and the file that they go to."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._version = DataVersion()
        self._counts: dict[str, int] = {}
        self._changed_ms: dict[str, int] = {}
        self._is_changed = False

    def take(self, counts: dict[str, int]) -> None:
        """Take new counts; a topic that has none left stays with zero."""
        for topic in self._counts.keys() | counts.keys():
            count = counts.get(topic, 0)
            if self._counts.get(topic) != count:
                self._counts[topic] = count
                self._changed_ms[topic] = self._now_ms()
                self._version = self._version.next(self._now_ms())
                self._is_changed = True

    def hook(self) -> TableHook:
        return TableHook(
            FILE_NAME, self._load, self._dump, lambda: self._is_changed, self._saved, SAVE_SECONDS
        )

    def _load(self, stored: object) -> None:
        self._version = msgspec.convert(stored, _Stored, strict=False).data_version

    def _dump(self) -> dict[str, Any]:
        return {
            "dataVersion": msgspec.to_builtins(self._version),
            "transactionCount": {
                topic: {"count": count, "timeStamp": self._changed_ms[topic]}
                for topic, count in sorted(self._counts.items())
            },
        }

    def _saved(self) -> None:
        self._is_changed = False
