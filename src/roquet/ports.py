"""The doors to the outside world: Clock, Rng, Disk and Net.

Every layer above takes these as arguments and never reads the clock, randomness, files or sockets
by itself. `runtime` holds the real ones, `sim` the simulated ones: the same production code runs on
both, which is how time-outs, crashes and cut links are tested without waiting.

    Clock   now_ms · monotonic · sleep_until · call_at
    Rng     random · randrange
    Disk    files, folders, free space      File   write_at · try_read · read · sync · reserve
    Net     listen · connect, with asyncio's own protocol and transport classes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import asyncio


class Timer(Protocol):
    """A callback that has been scheduled and not yet run."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time. All waiting outside `runtime` and `transport` goes through here."""

    def now_ms(self) -> int:
        """Return the wall clock in milliseconds since 1970; it may jump in either direction."""

    def monotonic(self) -> float:
        """Return seconds that never go back; only differences mean something."""

    async def sleep_until(self, when: float) -> None:
        """Return once `monotonic()` has reached `when`."""

    def call_at(self, when: float, callback: Callable[..., object], *args: object) -> Timer:
        """Run `callback(*args)` on the event loop once `monotonic()` has reached `when`."""


class Rng(Protocol):
    """Randomness; `random.Random` is one."""

    def random(self) -> float: ...

    def randrange(self, stop: int, /) -> int: ...


class DiskUsage(NamedTuple):
    """The space of the partition under a path, in bytes, as the file system reports it."""

    total_bytes: int
    used_bytes: int
    free_bytes: int


class FileStat(NamedTuple):
    """What a folder listing says of one entry."""

    name: str
    size_bytes: int
    modified_ms: int
    is_dir: bool


class File(Protocol):
    """An open file of fixed length, addressed by position.

    `write_at` reaches the operating system at once (it survives the death of the process) but the
    disk only with `sync`. Reading beyond the end gives fewer bytes; holes read as zeros.
    """

    path: str
    size_bytes: int

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data`; raises OSError (ENOSPC, EIO, EROFS …) when it cannot."""

    def try_read(self, position: int, size: int) -> bytes | None:
        """Return the bytes when that needs no disk access, None when only `read` can give them."""

    def try_read_many(self, places: Sequence[tuple[int, int]]) -> bytearray | None:
        """Return the bytes of several places (position, size) one behind the other, under the same condition.

        None also when one of them reaches beyond the end.
        """

    async def read(self, position: int, size: int) -> bytes:
        """Return the bytes, waiting for the disk without blocking the event loop."""

    def read_now(self, position: int, size: int) -> bytes:
        """Return the bytes, blocking for the disk: for start-up and recovery only."""

    async def sync(self) -> None:
        """Make everything written so far survive a power cut (fdatasync); raises OSError."""

    def sync_now(self) -> None:
        """Like `sync`, blocking: for start-up and shutdown only."""

    async def reserve(self, position: int, size: int) -> None:
        """Allocate real blocks for the range without changing its bytes; raises OSError (ENOSPC)."""

    def close(self) -> None: ...


class Lock(Protocol):
    """An exclusive claim on a file, held until `release`."""

    def release(self) -> None: ...


class Disk(Protocol):
    """Files and folders, by path. Blocking calls here are short (metadata only)."""

    def open(self, path: str, size_bytes: int | None = None) -> File:
        """Open a file for reading and writing.

        With `size_bytes` a missing file is created with that length (sparse) and an existing one is
        left at the length it has; without, a missing file raises FileNotFoundError.
        """

    def read_file(self, path: str) -> bytes:
        """Return a whole small file; raises FileNotFoundError."""

    def write_file(self, path: str, data: bytes) -> None:
        """Write a whole small file and sync it; not atomic, see `rename`."""

    def rename(self, source: str, target: str) -> None:
        """Replace `target` by `source` atomically and sync the folder."""

    def sync_dir(self, path: str) -> None:
        """Make creations, renames and removals in the folder survive a power cut."""

    def list_dir(self, path: str) -> list[FileStat]:
        """Return the entries sorted by name; an absent folder is an empty one."""

    def stat(self, path: str) -> FileStat:
        """Return what a listing would say; raises FileNotFoundError."""

    def exists(self, path: str) -> bool: ...

    def make_dirs(self, path: str) -> None:
        """Create the folder and its parents, for the owner only."""

    def remove(self, path: str) -> None:
        """Remove a file; raises FileNotFoundError."""

    def remove_tree(self, path: str) -> None:
        """Remove a folder with all that is in it; an absent one is fine."""

    def usage(self, path: str) -> DiskUsage:
        """Return the space of the partition that holds `path`, or would hold it."""

    def lock(self, path: str) -> Lock:
        """Take the exclusive lock on the file; raises BlockingIOError when somebody holds it."""


class Listener(Protocol):
    """A port that accepts connections until `close`."""

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens, with the real port when 0 was asked for."""

    def close(self) -> None:
        """Stop accepting; connections that were accepted stay."""


class Net(Protocol):
    """Stream connections, driven by asyncio's Protocol and Transport classes."""

    async def listen(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        """Accept connections; raises OSError when the address is taken or not ours."""

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_s: float
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Open a connection; raises OSError (TimeoutError included)."""


class Ports(NamedTuple):
    """All four doors together, for the composition roots."""

    clock: Clock
    rng: Rng
    disk: Disk
    net: Net
