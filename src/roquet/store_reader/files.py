"""The files of a commit log: their list, and reading from a position over their ends.

    00000000000000000000  00000000001073741824  …     each named by the offset of its first byte

Knows bytes and records' starts, not what is in a record. Reads by position, so a file that a running
broker deletes in the meantime is an error here and never a crash.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import Final, NamedTuple

from roquet.store.format.columns import read_columns
from roquet.store.format.record import MAGIC_V1, MAGIC_V2, RECORD_SIZE_BYTES_MIN, Stop

BLOCK_BYTES: Final = 4 * 1024 * 1024
NAME_DIGITS: Final = 20
MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))


class NotAStore(ValueError):
    """The folder holds no commit log."""


class LogFile(NamedTuple):
    """One file: where it begins in the log, how long it is, where it lies."""

    begin: int
    size_bytes: int
    path: str

    @property
    def end(self) -> int:
        return self.begin + self.size_bytes


def log_files(path: str) -> list[LogFile]:
    """Return the files of the log under a store's folder, or in a folder of log files; raises NotAStore."""
    if not os.path.isdir(path):
        raise NotAStore(f"{path} is not a folder: give the folder of a store, or of its commit log")
    inner = os.path.join(path, "commitlog")
    folder = inner if os.path.isdir(inner) else path
    files = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if len(entry.name) == NAME_DIGITS and entry.name.isdecimal() and entry.is_file():
            files.append(LogFile(int(entry.name), entry.stat().st_size, entry.path))
    if not files:
        raise NotAStore(
            f"{path} holds no commit log: neither a folder `commitlog` nor files with names of 20 digits"
        )
    return files


class LogBytes:
    """A log file that is open for reading by log offset."""

    def __init__(self, file: LogFile) -> None:
        self.file = file
        self._fd = os.open(file.path, os.O_RDONLY)

    def __enter__(self) -> LogBytes:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read(self, log_offset: int, size_bytes: int) -> bytes:
        """Return bytes from an offset on, fewer at the end of the file."""
        size_bytes = min(size_bytes, self.file.end - log_offset)
        parts = []
        at = log_offset - self.file.begin
        while size_bytes > 0:
            part = os.pread(self._fd, size_bytes, at)
            if not part:
                break
            parts.append(part)
            at, size_bytes = at + len(part), size_bytes - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def next_record(log: LogBytes, log_offset: int, limit: int) -> int | None:
    """Return the first offset in [log_offset, limit) where a sound record begins; None when there is none.

    A record carries its own offset, so bytes that only look like one are told apart.
    """
    overlap = RECORD_SIZE_BYTES_MIN
    while log_offset < limit:
        data = log.read(log_offset, BLOCK_BYTES + overlap)
        for at in _candidates(data):
            begin = log_offset + at
            if begin >= limit:
                return None
            if begin >= log_offset and _is_record(log, begin):
                return begin
        log_offset += BLOCK_BYTES
    return None


def _candidates(data: bytes) -> list[int]:
    """Return where a record might begin: four bytes before each magic."""
    found = []
    for magic in MAGICS:
        at = data.find(magic)
        while at >= 0:
            if at >= 4:
                found.append(at - 4)
            at = data.find(magic, at + 1)
    if data[4:8] in MAGICS and 0 not in found:
        found.append(0)
    return sorted(found)


def _is_record(log: LogBytes, begin: int) -> bool:
    head = log.read(begin, RECORD_SIZE_BYTES_MIN)
    size = int.from_bytes(head[:4], "big", signed=True)
    if len(head) < RECORD_SIZE_BYTES_MIN or int.from_bytes(head[28:36], "big", signed=True) != begin:
        return False
    if not RECORD_SIZE_BYTES_MIN <= size <= log.file.end - begin:
        return False
    found = read_columns(log.read(begin, size), 0, (), rows_max=1, log_offset=begin)
    return found.rows == 1


def fault_at(log: LogBytes, log_offset: int) -> str:
    """Return what keeps a record from beginning there; empty when one does, or the file's blank."""
    head = log.read(log_offset, 8)
    size = int.from_bytes(head[:4], "big") if len(head) == 8 else 0
    found = read_columns(log.read(log_offset, max(size, 8)), 0, (), rows_max=1, log_offset=log_offset)
    if found.rows or found.stop is Stop.FILE_END or len(head) < 8:
        return ""
    return found.fault or ("zeros" if found.stop is Stop.ZEROS else f"it claims {size} bytes")


def end_of_log(files: list[LogFile]) -> int:
    """Return the offset behind the last sound record, looking at the last file that holds anything."""
    for file in reversed(files):
        with LogBytes(file) as log:
            position = _last_data_block(log)
            while position is not None:
                begin = next_record(log, position, file.end)
                if begin is not None:
                    return _walk_to_end(log, begin)
                position = None if position == file.begin else max(file.begin, position - BLOCK_BYTES)
    return files[0].begin


def _last_data_block(log: LogBytes) -> int | None:
    """Return where the last block begins that is not all zeros."""
    zeros = bytes(BLOCK_BYTES)
    position = log.file.begin + (max(log.file.size_bytes - 1, 0) // BLOCK_BYTES) * BLOCK_BYTES
    while position >= log.file.begin:
        data = log.read(position, BLOCK_BYTES)
        if data != zeros[: len(data)]:
            return position
        position -= BLOCK_BYTES
    return None


def _walk_to_end(log: LogBytes, position: int) -> int:
    """Return the end of the last sound record, stepping over damage that has sound records behind it."""
    while True:
        data = log.read(position, 4 * BLOCK_BYTES)
        found = read_columns(data, 0, (), rows_max=1 << 62, log_offset=position)
        position += found.position
        if found.position:
            continue
        if found.stop in (Stop.ZEROS, Stop.FILE_END) or len(data) < 8:
            return position
        beyond = next_record(log, position + 1, log.file.end)
        if beyond is None:
            return position
        position = beyond


def file_at(files: list[LogFile], log_offset: int) -> LogFile:
    """Return the file that holds an offset."""
    return files[bisect_right(files, log_offset, key=lambda file: file.begin) - 1]
