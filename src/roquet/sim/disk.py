"""A disk in memory that fails the way disks do, from one random stream.

The Disk port for simulations and crash tests. `crash` cuts the power and loses what was not synced
(see `inodes`), `kill` ends the process only: all that was written stays. Both make every open file
and lock useless, as they would be. Faults are switched on by the test:

    capacity_bytes   ENOSPC beyond it          fail(...)      OSError from chosen calls on chosen paths
    read_only        EROFS                     flip(...)      one bit turned over
    sync_delay_s     slow fdatasync            cut_at(n)      PowerCut out of the n-th change from now
    cold_probability how often `try_read` says None

Paths are absolute; the names in the root folder are durable at once. Holes take neither memory nor
space. No real file is touched.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from roquet.ports import Clock, DiskUsage, FileStat, Rng
from roquet.sim.inodes import PAGE_BYTES, Folder, Inode


class PowerCut(BaseException):
    """The moment that `cut_at` asked for; not an Exception, so that no handler swallows it."""


class Fault:
    """An error that calls of one kind (`write`, `sync`, `read`, `reserve`, `open`, `remove`, `rename`)
    raise for paths that contain `where`, the next `times` times."""

    __slots__ = ("code", "kind", "times", "where")

    def __init__(self, kind: str, where: str, code: int, times: int) -> None:
        self.kind = kind
        self.where = where
        self.code = code
        self.times = times


FOREVER = 1 << 62


class SimFile:
    """An open file of a SimDisk; useless after a power cut or kill."""

    __slots__ = ("_disk", "_inode", "_life", "path", "size_bytes")

    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.life
        self.path = path
        self.size_bytes = inode.size

    def _check(self, kind: str) -> None:
        if self._life != self._disk.life:
            raise ValueError(f"{self.path} is closed")
        self._disk.raise_fault(kind, self.path)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        assert position >= 0 and position + len(data) <= self.size_bytes, f"{self.path}: write beyond the end"
        self._check("write")
        self._disk.write_pages(self.path, self._inode, position, bytes(data))

    def try_read(self, position: int, size: int) -> bytes | None:
        self._check("read")
        if self._disk.cold_probability and self._disk.rng.random() < self._disk.cold_probability:
            return None
        return self._inode.read(position, size)

    def try_read_many(self, places: Sequence[tuple[int, int]]) -> bytearray | None:
        found = bytearray()
        for position, size in places:
            data = self.try_read(position, size)
            if data is None or len(data) < size:
                return None
            found += data
        return found

    async def read(self, position: int, size: int) -> bytes:
        self._check("read")
        await self._wait(self._disk.read_delay_s)
        return self._inode.read(position, size)

    def read_now(self, position: int, size: int) -> bytes:
        self._check("read")
        return self._inode.read(position, size)

    async def sync(self) -> None:
        self._check("")
        flushed, size = self._inode.dirty_now(), self._inode.size
        await self._wait(self._disk.sync_delay_s)
        self._finish_sync(flushed, size)

    def sync_now(self) -> None:
        self._check("")
        self._finish_sync(self._inode.dirty_now(), self._inode.size)

    def _finish_sync(self, flushed: dict[int, bytes], size: int) -> None:
        self._disk.step()
        try:
            self._disk.raise_fault("sync", self.path)
        except OSError:
            self._inode.sync_failed()
            raise
        self._inode.synced(flushed, size)

    async def _wait(self, delay_s: float) -> None:
        """Take the time that the disk needs. A close meanwhile changes nothing, a death ends all."""
        life = self._life
        await self._disk.wait(delay_s)
        if life != self._disk.life:
            raise OSError(errno.EIO, "the process or the machine died meanwhile", self.path)

    async def reserve(self, position: int, size: int) -> None:
        self._check("reserve")
        stop = min(position + size, self.size_bytes)
        if position < stop:
            self._disk.reserve_pages(self.path, self._inode, position, stop)

    def close(self) -> None:
        self._life = -1


class SimLock:
    """A lock that dies with the process that holds it."""

    __slots__ = ("_disk", "_life", "_path")

    def __init__(self, disk: SimDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._life = disk.life

    def release(self) -> None:
        if self._life == self._disk.life:
            self._disk.locked.discard(self._path)


class SimDisk:
    """The Disk port over memory."""

    def __init__(self, rng: Rng, clock: Clock | None = None, capacity_bytes: int = 1 << 50) -> None:
        self.rng = rng
        self._clock = clock
        self.capacity_bytes = capacity_bytes
        self.other_used_bytes = 0
        self.read_only = False
        self.cold_probability = 0.0
        self.sync_delay_s = 0.0
        self.read_delay_s = 0.0
        self.life = 0
        self.locked: set[str] = set()
        self._faults: list[Fault] = []
        self._steps_left = FOREVER
        self._root = Folder(0)
        self._allocated_pages = 0
        self._last_ms = 0

    # What tests do to it.

    def crash(self) -> None:
        """Lose what was not synced, by chance; open files and locks are gone."""
        self.kill()
        self._root.sync()
        for node in self._root.entries.values():
            node.power_cut(self.rng)
        self._allocated_pages = sum(inode.allocated() for inode in self._root.inodes())

    def kill(self) -> None:
        """End the process: open files and locks are gone, what was written stays."""
        self.life += 1
        self.locked.clear()
        self._steps_left = FOREVER

    def cut_at(self, change: int) -> None:
        """Raise PowerCut instead of the `change`-th change of the disk from now on (0 is the next)."""
        self._steps_left = change

    def fail(self, kind: str, where: str = "", code: int = errno.EIO, times: int = FOREVER) -> None:
        """Let calls of a kind on paths that contain `where` raise OSError."""
        self._faults.append(Fault(kind, where, code, times))

    def heal(self) -> None:
        """Take all faults away."""
        self._faults.clear()

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Turn one bit over, as seen now and after a power cut."""
        inode = self._inode(path)
        page, at = divmod(position, PAGE_BYTES)
        for table in (inode.pages, inode.before, inode.doomed):
            if page in table:
                old = table[page]
                table[page] = old[:at] + bytes([old[at] ^ (1 << bit)]) + old[at + 1 :]

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file short, as a broken file system would."""
        self._inode(path).truncate(size_bytes)

    # What its files use.

    def step(self) -> None:
        """Count one change."""
        if self._steps_left <= 0:
            raise PowerCut
        self._steps_left -= 1

    def raise_fault(self, kind: str, path: str) -> None:
        if self.read_only and kind in ("write", "reserve", "create", "remove", "rename"):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        for fault in self._faults:
            if fault.kind == kind and fault.where in path and fault.times > 0:
                fault.times -= 1
                raise OSError(fault.code, os.strerror(fault.code), path)

    async def wait(self, delay_s: float) -> None:
        if delay_s:
            assert self._clock is not None, "a slow disk needs a clock"
            await self._clock.sleep_until(self._clock.monotonic() + delay_s)

    def write_pages(self, path: str, inode: Inode, position: int, data: bytes) -> None:
        """Write page by page; what fits before the disk is full stays written, as on a real one."""
        done = 0
        inode.modified_ms = self._now_ms()
        while done < len(data):
            self.step()
            page, start = divmod(position + done, PAGE_BYTES)
            self._allocate(path, inode, page)
            piece = data[done : done + PAGE_BYTES - start]
            inode.write_page(page, start, piece)
            done += len(piece)

    def reserve_pages(self, path: str, inode: Inode, position: int, stop: int) -> None:
        self.step()
        for page in range(position // PAGE_BYTES, (stop - 1) // PAGE_BYTES + 1):
            self._allocate(path, inode, page)
            inode.reserved.add(page)

    def _allocate(self, path: str, inode: Inode, page: int) -> None:
        if inode.is_allocated(page):
            return
        if self.usage(path).free_bytes < PAGE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self._allocated_pages += 1

    # The Disk port.

    def open(self, path: str, size_bytes: int | None = None) -> SimFile:
        self.raise_fault("open", path)
        folder, name = self._parent(path)
        inode = folder.entries.get(name)
        if inode is None:
            if size_bytes is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            inode = self._create(path, size_bytes)
        if isinstance(inode, Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return SimFile(self, path, inode)

    def read_file(self, path: str) -> bytes:
        self.raise_fault("read", path)
        inode = self._inode(path)
        return inode.read(0, inode.size)

    def write_file(self, path: str, data: bytes) -> None:
        self.raise_fault("write", path)
        folder, name = self._parent(path)
        inode = folder.entries.get(name)
        if inode is None:
            inode = self._create(path, 0)
        assert isinstance(inode, Inode), f"{path} is a folder"
        self.step()
        self._allocated_pages -= inode.allocated()
        inode.truncate(0)
        inode.size = len(data)
        self.write_pages(path, inode, 0, data)
        SimFile(self, path, inode).sync_now()

    def rename(self, source: str, target: str) -> None:
        self.raise_fault("rename", source)
        folder, name = self._parent(source)
        node = self._node(source)
        target_folder, target_name = self._parent(target)
        replaced = target_folder.entries.get(target_name)
        self.step()
        if isinstance(replaced, Inode) and replaced is not node:
            self._allocated_pages -= replaced.allocated()
        if target_folder is folder:
            folder.change((name, None), (target_name, node))
        else:
            target_folder.change((target_name, node))
            folder.change((name, None))
        self.step()
        target_folder.sync()
        folder.sync()

    def sync_dir(self, path: str) -> None:
        self.raise_fault("sync", path)
        folder = self._node(path)
        assert isinstance(folder, Folder), f"{path} is a file"
        self.step()
        folder.sync()

    def list_dir(self, path: str) -> list[FileStat]:
        try:
            folder = self._node(path)
        except FileNotFoundError:
            return []
        if not isinstance(folder, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return sorted(_stat_value(name, node) for name, node in folder.entries.items())

    def stat(self, path: str) -> FileStat:
        return _stat_value(path.rpartition("/")[2], self._node(path))

    def exists(self, path: str) -> bool:
        try:
            self._node(path)
        except FileNotFoundError:
            return False
        return True

    def make_dirs(self, path: str) -> None:
        folder = self._root
        for name in _names(path):
            node = folder.entries.get(name)
            if node is None:
                self.raise_fault("create", path)
                self.step()
                node = Folder(self._now_ms())
                folder.change((name, node))
            if not isinstance(node, Folder):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            folder = node

    def remove(self, path: str) -> None:
        self.raise_fault("remove", path)
        inode = self._inode(path)
        folder, name = self._parent(path)
        self.step()
        folder.change((name, None))
        self._allocated_pages -= inode.allocated()

    def remove_tree(self, path: str) -> None:
        if not self.exists(path):
            return
        self.raise_fault("remove", path)
        node = self._node(path)
        folder, name = self._parent(path)
        self.step()
        folder.change((name, None))
        for inode in node.inodes() if isinstance(node, Folder) else ():
            self._allocated_pages -= inode.allocated()

    def usage(self, path: str) -> DiskUsage:
        used = min(self.capacity_bytes, self._allocated_pages * PAGE_BYTES + self.other_used_bytes)
        return DiskUsage(self.capacity_bytes, used, self.capacity_bytes - used)

    def lock(self, path: str) -> SimLock:
        if path in self.locked:
            raise BlockingIOError(errno.EAGAIN, "another process holds the lock", path)
        self.write_file(path, b"lock")
        self.locked.add(path)
        return SimLock(self, path)

    # Names.

    def _now_ms(self) -> int:
        # Without a clock, time stands still but for a tick at each change: files keep their order.
        self._last_ms = self._clock.now_ms() if self._clock is not None else self._last_ms + 1
        return self._last_ms

    def _create(self, path: str, size_bytes: int) -> Inode:
        self.raise_fault("create", path)
        folder, name = self._parent(path)
        self.step()
        inode = Inode(size_bytes, self._now_ms())
        folder.change((name, inode))
        return inode

    def _node(self, path: str) -> Inode | Folder:
        node: Inode | Folder = self._root
        for name in _names(path):
            found = node.entries.get(name) if isinstance(node, Folder) else None
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = found
        return node

    def _inode(self, path: str) -> Inode:
        node = self._node(path)
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        above, _, name = path.rstrip("/").rpartition("/")
        folder = self._node(above)
        if not isinstance(folder, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return folder, name


@contextmanager
def cut_short(disk: SimDisk, change: int) -> Iterator[None]:
    """Run the block, pull the plug at its `change`-th change (or at its end), and come back."""
    disk.cut_at(change)
    with suppress(PowerCut):
        yield
    disk.crash()


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _stat_value(name: str, node: Inode | Folder) -> FileStat:
    if isinstance(node, Folder):
        return FileStat(name, 0, node.modified_ms, True)
    return FileStat(name, node.size, node.modified_ms, False)
