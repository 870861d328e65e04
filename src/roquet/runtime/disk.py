"""The real disk: files and folders of the operating system behind the Disk port.

What may wait for the device (fdatasync, posix_fallocate, reads of pages that are not cached) runs in
two small thread pools, one for readers and one for writers: a flood of cold reads must not stand
before a flush. Everything else is a system call on the event loop.

    write_at  pwrite       try_read  preadv with RWF_NOWAIT: bytes that are cached, or None
    read      pool         sync, reserve  pool          lock  fcntl record lock on byte [0, 1)

It knows nothing of what is in the files. Folders are made 0700 and files 0600; symbolic links are
not followed in a last component.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import stat as stat_bits
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from roquet.ports import DiskUsage, FileStat

T = TypeVar("T")

READER_THREADS = 2
WRITER_THREADS = 2
LOCK_TEXT = b"lock"

# Freeing the blocks of a large file takes tens of milliseconds: that is left to the pool.
SLOW_TO_FREE_BYTES = 16 * 1024 * 1024

# macOS has neither call; a plain fsync and no reservation keep the promises there.
_datasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_fallocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
_nowait_flag: int = getattr(os, "RWF_NOWAIT", 0)

# A record lock belongs to the process and goes with the first close of any descriptor of its file, so
# a second claim from inside the process must be refused before the file is even opened.
_locked: set[tuple[int, int]] = set()


class OsFile:
    """An open file. `close` is safe at any time: what the pool still does is done first."""

    __slots__ = (
        "_busy",
        "_can_try",
        "_doomed",
        "_fd",
        "_guard",
        "_readers",
        "_writers",
        "path",
        "size_bytes",
    )

    def __init__(
        self, path: str, fd: int, size_bytes: int, readers: ThreadPoolExecutor, writers: ThreadPoolExecutor
    ) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._fd = fd
        self._readers = readers
        self._writers = writers
        self._guard = threading.Lock()
        self._busy = 0
        self._doomed = False
        self._can_try = bool(_nowait_flag)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        length = len(data)
        assert position >= 0 and position + length <= self.size_bytes, f"{self.path}: write beyond the end"
        written = os.pwrite(self._open_fd(), data, position)
        while written < length:
            written += os.pwrite(self._fd, memoryview(data)[written:], position + written)

    def try_read(self, position: int, size: int) -> bytes | None:
        expected = min(size, self.size_bytes - position)
        if expected <= 0:
            return b""
        if not self._can_try:
            return None
        buffer = bytearray(expected)
        try:
            got = os.preadv(self._open_fd(), (buffer,), position, _nowait_flag)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            self._can_try = False
            return None
        return bytes(buffer) if got == expected else None

    def try_read_many(self, places: Sequence[tuple[int, int]]) -> bytearray | None:
        if not self._can_try:
            return None
        fd, flag = self._open_fd(), _nowait_flag
        buffer = bytearray(sum([size for _, size in places]))
        view = memoryview(buffer)
        at = 0
        try:
            for position, size in places:
                if os.preadv(fd, (view[at : at + size],), position, flag) != size:
                    return None
                at += size
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL):
                raise
            return None
        return buffer

    async def read(self, position: int, size: int) -> bytes:
        return await self._in(self._readers, _read_all, position, min(size, self.size_bytes - position))

    def read_now(self, position: int, size: int) -> bytes:
        return _read_all(self._open_fd(), position, min(size, self.size_bytes - position))

    async def sync(self) -> None:
        await self._in(self._writers, _datasync)

    def sync_now(self) -> None:
        _datasync(self._open_fd())

    async def reserve(self, position: int, size: int) -> None:
        length = min(size, self.size_bytes - position)
        if _fallocate is not None and length > 0:
            await self._in(self._writers, _fallocate, position, length)

    def close(self) -> None:
        with self._guard:
            if self._fd < 0 or self._doomed:
                return
            if self._busy:
                self._doomed = True
                return
            fd, self._fd = self._fd, -1
        os.close(fd)

    def _open_fd(self) -> int:
        if self._fd < 0 or self._doomed:
            raise ValueError(f"{self.path} is closed")
        return self._fd

    async def _in(self, pool: ThreadPoolExecutor, call: Callable[..., T], *args: int) -> T:
        fd = self._open_fd()
        with self._guard:
            self._busy += 1
        try:
            future = pool.submit(call, fd, *args)
        except RuntimeError:
            self._done(None)
            raise
        # Not a `finally` around the await: a task that is cancelled while the thread is at work would
        # close the descriptor under it.
        future.add_done_callback(self._done)
        return await asyncio.wrap_future(future)

    def _done(self, _: Future[T] | None) -> None:
        with self._guard:
            self._busy -= 1
            if self._busy or not self._doomed:
                return
            fd, self._fd = self._fd, -1
        os.close(fd)


def _read_all(fd: int, position: int, size: int) -> bytes:
    if size <= 0:
        return b""
    data = os.pread(fd, size, position)
    while len(data) < size:
        more = os.pread(fd, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


class OsLock:
    """A record lock that this process holds."""

    __slots__ = ("_fd", "_identity")

    def __init__(self, fd: int, identity: tuple[int, int]) -> None:
        self._fd = fd
        self._identity = identity

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            _locked.discard(self._identity)
            os.close(fd)


class OsDisk:
    """The Disk port over the operating system. One for a process; `close` ends its threads."""

    def __init__(self) -> None:
        self._readers = ThreadPoolExecutor(READER_THREADS, "roquet-disk-read")
        self._writers = ThreadPoolExecutor(WRITER_THREADS, "roquet-disk-write")

    def close(self) -> None:
        """Wait for what is under way and end the threads; files must not be used afterwards."""
        self._readers.shutdown()
        self._writers.shutdown()

    def open(self, path: str, size_bytes: int | None = None) -> OsFile:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            if size_bytes is None:
                raise
            fd = _create(path, size_bytes)
        return OsFile(path, fd, os.fstat(fd).st_size, self._readers, self._writers)

    def read_file(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return _read_all(fd, 0, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def write_file(self, path: str, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)
        folder = os.path.dirname(target)
        self.sync_dir(folder)
        if os.path.dirname(source) != folder:
            self.sync_dir(os.path.dirname(source))

    def sync_dir(self, path: str) -> None:
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def list_dir(self, path: str) -> list[FileStat]:
        entries: list[FileStat] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(path) as found:
            for entry in found:
                # A file may go between being named and being looked at.
                with contextlib.suppress(FileNotFoundError):
                    entries.append(_stat_value(entry.name, entry.stat(follow_symlinks=False)))
        return sorted(entries)

    def stat(self, path: str) -> FileStat:
        return _stat_value(os.path.basename(path), os.lstat(path))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def make_dirs(self, path: str) -> None:
        if os.path.isdir(path):
            return
        parent = os.path.dirname(path)
        if parent and parent != path:
            self.make_dirs(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)

    def remove(self, path: str) -> None:
        found = os.lstat(path)
        if not stat_bits.S_ISREG(found.st_mode) or found.st_blocks * 512 < SLOW_TO_FREE_BYTES:
            os.unlink(path)
            return
        # The blocks are freed by the last close, so this descriptor takes the waiting into the pool.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.unlink(path)
        finally:
            self._writers.submit(os.close, fd)

    def remove_tree(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def usage(self, path: str) -> DiskUsage:
        while True:
            try:
                space = os.statvfs(path or ".")
                break
            except FileNotFoundError:
                if not path:
                    raise
                path = os.path.dirname(path)
        unit = space.f_frsize
        used = (space.f_blocks - space.f_bfree) * unit
        return DiskUsage(space.f_blocks * unit, used, space.f_bavail * unit)

    def lock(self, path: str) -> OsLock:
        with contextlib.suppress(FileNotFoundError):
            if _identity(os.stat(path)) in _locked:
                raise BlockingIOError(errno.EAGAIN, "this process holds the lock already", path)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            os.pwrite(fd, LOCK_TEXT, 0)
            os.fsync(fd)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise BlockingIOError(errno.EAGAIN, "another process holds the lock", path) from error
            raise
        identity = _identity(os.fstat(fd))
        _locked.add(identity)
        return OsLock(fd, identity)


def _create(path: str, size_bytes: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        os.ftruncate(fd, size_bytes)
    except OSError:
        os.close(fd)
        os.unlink(path)
        raise
    return fd


def _stat_value(name: str, found: os.stat_result) -> FileStat:
    return FileStat(name, found.st_size, found.st_mtime_ns // 1_000_000, stat_bits.S_ISDIR(found.st_mode))


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
