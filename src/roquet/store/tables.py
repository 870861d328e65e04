"""The small JSON tables beside the log: topics, groups, offsets, each a file and its predecessor.

The only truth besides the log, so at every moment either the file or its `.bak` is whole, whatever is
cut off. It does not know what the tables mean. Layout: Apache's `config/*.json` as 5.5.0 writes it.

    save   write <file>.tmp, sync ▸ <file> becomes <file>.bak ▸ <file>.tmp becomes <file>
    load   <file> ▸ <file>.bak ▸ nothing; what cannot be read is kept as <file>.damaged

Apache writes the new file in place after the first renaming: a crash there leaves half a file, which
the next save would push over the whole `.bak`. Reference: Apache's ConfigManager, 5.5.0.
"""

from __future__ import annotations

import logging
import posixpath

from roquet.ports import Disk
from roquet.wire.bodies.loose_json import SIZE_BYTES_MAX, LooseJsonError, dumps_pretty, loads

log = logging.getLogger(__name__)

# A table that breaks more often than this has a cause that needs a person; the last one is replaced.
DAMAGED_COPIES_MAX = 100


class Table:
    """One JSON file. Saving blocks for two syncs of small files."""

    __slots__ = ("_disk", "_path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def load(self) -> dict[object, object] | None:
        """Return what was saved last, None when nothing ever was (or nothing can be read any more).

        A file that cannot be read is moved aside, so that the next save does not push it over `.bak`.
        """
        backup = f"{self._path}.bak"
        stored = self._read(self._path)
        if isinstance(stored, dict):
            return stored
        saved_before = self._read(backup)
        if isinstance(saved_before, dict):
            aside = self._set_aside(self._path) if stored else "it is missing"
            log.warning(
                "%s cannot be used (%s; %s): took %s instead, the last changes may be missing",
                self._path,
                stored or "a crash cut a save short",
                aside,
                backup,
            )
            return saved_before
        for path, problem in ((self._path, stored), (backup, saved_before)):
            if problem:
                aside = self._set_aside(path)
                log.error(
                    "%s cannot be used (%s; %s) and there is no whole copy: starting without it. "
                    "Repair that file and put it back with the broker stopped, or create the entries anew",
                    path,
                    problem,
                    aside,
                )
        return None

    def save(self, value: object) -> None:
        """Put the table on disk; raises OSError, and then what was saved before is still there."""
        folder = posixpath.dirname(self._path)
        if not self._disk.exists(folder):
            self._disk.make_dirs(folder)
            self._disk.sync_dir(posixpath.dirname(folder))
        fresh = f"{self._path}.tmp"
        self._disk.write_file(fresh, dumps_pretty(value))
        if self._disk.exists(self._path):
            self._disk.rename(self._path, f"{self._path}.bak")
        self._disk.rename(fresh, self._path)

    def _read(self, path: str) -> dict[object, object] | str:
        """Return the table, or what is wrong with it; an empty text when there is no file."""
        try:
            data = self._disk.read_file(path)
        except FileNotFoundError:
            return ""
        if not data:
            return "it is empty"
        try:
            value = loads(data, SIZE_BYTES_MAX)
        except LooseJsonError as error:
            return str(error)
        return value if isinstance(value, dict) else "it does not hold an object"

    def _set_aside(self, path: str) -> str:
        target = f"{path}.damaged"
        for number in range(1, DAMAGED_COPIES_MAX):
            if not self._disk.exists(target):
                break
            target = f"{path}.damaged.{number}"
        self._disk.rename(path, target)
        return f"kept as {target}"
