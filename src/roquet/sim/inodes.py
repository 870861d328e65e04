"""What a simulated disk remembers, and what of it a power cut takes away.

An `Inode` keeps its pages twice where they differ: as the running program sees them, and as they
would be after a power cut. A `Folder` keeps its names the same way, as a list of changes since its
last sync, of which a power cut keeps the first few (journals lose the tail, never the middle).

    page:  written ──sync──▶ durable          names:  changed ──sync_dir──▶ durable
              └─power cut─▶ new, old or torn              └─power cut─▶ a prefix of the changes
              └─failed sync─▶ doomed: later syncs say yes, and a power cut still takes it
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from roquet.ports import Rng

PAGE_BYTES = 4096
SECTOR_BYTES = 512
HOLE = bytes(PAGE_BYTES)


class Inode:
    """The bytes of one file, in pages; holes take no memory."""

    __slots__ = ("before", "doomed", "durable_size", "modified_ms", "pages", "reserved", "size")

    def __init__(self, size: int, modified_ms: int) -> None:
        self.size = size
        self.durable_size = 0
        self.modified_ms = modified_ms
        self.pages: dict[int, bytes] = {}
        self.reserved: set[int] = set()
        # Durable image of each page that differs, in the order of its first write.
        self.before: dict[int, bytes] = {}
        self.doomed: dict[int, bytes] = {}

    def allocated(self) -> int:
        """Return how many pages take space."""
        return len(self.reserved.union(self.pages)) if self.reserved else len(self.pages)

    def is_allocated(self, page: int) -> bool:
        return page in self.pages or page in self.reserved

    def write_page(self, page: int, start: int, data: bytes) -> None:
        """Write inside one page."""
        old = self.pages.get(page, HOLE)
        if page not in self.before:
            self.before[page] = self.doomed.pop(page, old)
        self.pages[page] = old[:start] + data + old[start + len(data) :]

    def read(self, position: int, size: int) -> bytes:
        stop = min(position + size, self.size)
        if position >= stop:
            return b""
        first, last = position // PAGE_BYTES, (stop - 1) // PAGE_BYTES
        joined = b"".join(self.pages.get(page, HOLE) for page in range(first, last + 1))
        start = position - first * PAGE_BYTES
        return joined[start : start + stop - position]

    def dirty_now(self) -> dict[int, bytes]:
        """Return the pages that a sync which starts now will make durable."""
        return {page: self.pages[page] for page in self.before}

    def synced(self, flushed: dict[int, bytes], size: int) -> None:
        """Note that these images are durable; a page that was written since keeps differing."""
        self.durable_size = max(self.durable_size, size)
        for page, image in flushed.items():
            if page not in self.before:
                continue
            if self.pages[page] is image:
                del self.before[page]
            else:
                self.before[page] = image

    def sync_failed(self) -> None:
        """Lose what was to be written, the way Linux does: the pages are now taken for clean."""
        for page, image in self.before.items():
            self.doomed.setdefault(page, image)
        self.before.clear()

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes, durably: only whole small files are cut."""
        self.size = self.durable_size = size
        for table in (self.pages, self.before, self.doomed):
            for page in [page for page in table if page * PAGE_BYTES >= size]:
                del table[page]
        self.reserved = {page for page in self.reserved if page * PAGE_BYTES < size}

    def power_cut(self, rng: Rng) -> None:
        """Keep or lose each page that is not durable; the last one may be torn at a sector."""
        if self.durable_size < self.size and rng.random() < 0.5:
            self.truncate(self.durable_size)
        self.durable_size = self.size
        last = next(reversed(self.before), -1)
        for page, old in self.before.items():
            chance = rng.random()
            if page == last and chance < 0.5:
                cut = SECTOR_BYTES * rng.randrange(PAGE_BYTES // SECTOR_BYTES)
                self.pages[page] = self.pages[page][:cut] + old[cut:]
            elif chance < 0.5:
                self.pages[page] = old
        self.pages.update(self.doomed)
        self.before.clear()
        self.doomed.clear()


class Change(NamedTuple):
    """One change of names; `node` is what the name now stands for, None when it is gone."""

    names: tuple[tuple[str, Inode | Folder | None], ...]


class Folder:
    """Names, and the changes among them that are not durable yet."""

    __slots__ = ("changes", "durable", "entries", "modified_ms")

    def __init__(self, modified_ms: int) -> None:
        self.modified_ms = modified_ms
        self.entries: dict[str, Inode | Folder] = {}
        self.durable: dict[str, Inode | Folder] = {}
        self.changes: list[Change] = []

    def change(self, *names: tuple[str, Inode | Folder | None]) -> None:
        """Change several names at once: a power cut keeps all of it or nothing."""
        self.changes.append(Change(names))
        _apply(self.entries, self.changes[-1:])

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.changes.clear()

    def power_cut(self, rng: Rng) -> None:
        """Keep the first few changes, then do the same below."""
        kept = rng.randrange(len(self.changes) + 1)
        _apply(self.durable, self.changes[:kept])
        self.entries = dict(self.durable)
        self.changes.clear()
        for node in self.entries.values():
            node.power_cut(rng)

    def inodes(self) -> Iterator[Inode]:
        """Yield every file below."""
        for node in self.entries.values():
            if isinstance(node, Folder):
                yield from node.inodes()
            else:
                yield node


def _apply(entries: dict[str, Inode | Folder], changes: list[Change]) -> None:
    for change in changes:
        for name, node in change.names:
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node
