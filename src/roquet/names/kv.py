"""The KV table: small texts that administrators keep on the name server, order settings above all.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"topicA":"broker-a:4;broker-b:4"}}}      one line, raw UTF-8

Place in the flow: `names.handlers` reads and writes it (100, 101, 102, 219; and 103, 105 for order topics).
Every change is on the disk before it is answered: the new text goes to `.tmp` and takes the file's place by
a rename; the text before it stays beside it as `.bak`, for the day when the file cannot be read. Reference:
KVConfigManager of Apache 5.5.0, whose file this is.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Mapping
from typing import Final

import msgspec

from roquet.ports import Disk

log = logging.getLogger("roquet.names")

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"

TABLE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The table is rewritten as a whole with each change; beyond this it is not a small one any more."""

_Table = dict[str, dict[str, str]]


class _Saved(msgspec.Struct, rename="camel"):
    config_table: _Table


_decoder = msgspec.json.Decoder(_Saved)


class TableFull(Exception):
    """The change would make the table larger than it may be."""


class KeyValues:
    """Values by namespace and key, as the file has them; without a path they are not kept."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._saved = b""
        self._table: _Table = {}

    def load(self) -> None:
        """Read the file; a damaged one is set aside, and the text before it is used instead."""
        if not self._path:
            return
        try:
            saved = self._disk.read_file(self._path)
        except FileNotFoundError:
            return
        try:
            self._table = _decoder.decode(saved).config_table
            self._saved = saved
        except ValueError as error:
            log.error("%s is damaged (%s): kept as .damaged, going back to .bak", self._path, error)
            self._disk.rename(self._path, self._path + ".damaged")
            self._load_backup()

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, None when there is none."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """Return all values of a namespace, None when it does not exist."""
        return self._table.get(name)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Store a value; raises OSError or TableFull, and then nothing has changed."""
        self._save({**self._table, namespace: {**self._table.get(namespace, {}), key: value}})

    def delete(self, namespace: str, key: str) -> None:
        """Forget a value; one that is not there is fine. Raises OSError, and then nothing has changed."""
        values = self._table.get(namespace, {})
        if key in values:
            left = {each: value for each, value in values.items() if each != key}
            self._save({**self._table, namespace: left})

    def _save(self, table: _Table) -> None:
        text = msgspec.json.encode(_Saved(table))
        if len(text) > TABLE_BYTES_MAX:
            raise TableFull(f"the KV table would grow to {len(text)} bytes, {TABLE_BYTES_MAX} are allowed")
        if self._path:
            self._write(text)
        self._table, self._saved = table, text

    def _write(self, text: bytes) -> None:
        self._make_folder(posixpath.dirname(self._path))
        if self._saved:
            self._disk.write_file(self._path + ".bak", self._saved)
        self._disk.write_file(self._path + ".tmp", text)
        self._disk.rename(self._path + ".tmp", self._path)

    def _make_folder(self, folder: str) -> None:
        """Create the folder so that it survives a power cut: each new one is synced in its parent."""
        missing: list[str] = []
        while folder and not self._disk.exists(folder):
            missing.append(folder)
            folder = posixpath.dirname(folder)
        if missing:
            self._disk.make_dirs(missing[0])
        for each in reversed(missing):
            self._disk.sync_dir(posixpath.dirname(each))

    def _load_backup(self) -> None:
        try:
            self._table = _decoder.decode(self._disk.read_file(self._path + ".bak")).config_table
        except (FileNotFoundError, ValueError) as error:
            log.error("%s.bak does not help (%s): starting with an empty KV table", self._path, error)
