"""The files of an archive: which there are, and how they become visible all at once.

    to/topic=orders/day=2026-11-15/<id>.parquet       messages
    to/_manifest/<query>-<batch>.jsonl                what a commit added and took away: JSON lines
    to/_staging/<query>-<batch>/<id>.parquet          written, not committed

    tasks write into _staging ─▶ the manifest's entry is moved into its place: the commit point
                              ─▶ files move to where readers look ─▶ what was replaced is deleted

Before the entry nothing of a batch is visible; after it all becomes so, whoever dies: the next run finishes
what an entry began. A batch that has an entry is never added again. Readers that ignore names which
begin with an underscore (Spark, Arrow, DuckDB …) need not know any of this. Works on every file system
that pyarrow knows, given as a path or a URI. On a local one, files and the folders that name them are on
the disk before the step behind them: the queue may forget what the archive says it has.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from roquet.model.route import QueueName
from roquet.spark.pipelines.summary import Refused
from roquet.spark.plan import Offsets

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

MANIFEST: Final = "_manifest"
STAGING: Final = "_staging"
FOLD_FROM: Final = 200
"""Entries from which the manifest is written anew as one."""


class Span(NamedTuple):
    """Offsets of one queue in a file; the end is exclusive, and there may be gaps."""

    broker: str
    queue_id: int
    start: int
    end: int


class Filed(NamedTuple):
    """One file of an archive; what a line of the manifest says."""

    path: str
    """Within the archive."""
    topic: str
    day: str
    rows: int
    size_bytes: int
    spans: tuple[Span, ...]
    first_time: str
    last_time: str
    """Times of storing, ISO, UTC."""
    staged: str = ""

    def line(self) -> str:
        """Return it as a line of JSON."""
        return json.dumps({"add": self._asdict()}, ensure_ascii=False)

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Filed:
        """Return the file that a line of JSON describes."""
        return cls(**{**found, "spans": tuple(Span(*each) for each in found["spans"])})

    def may_hold(self, since: datetime | None, until: datetime | None) -> bool:
        """False when all of its messages were stored outside of these times; `until` is exclusive."""
        return (since is None or datetime.fromisoformat(self.last_time) >= since) and (
            until is None or datetime.fromisoformat(self.first_time) < until
        )


class Place(NamedTuple):
    """A folder on some file system; travels to tasks."""

    files: FileSystem
    root: str

    @classmethod
    def of(cls, path: str) -> Place:
        """Return the folder that a path or URI names; raises Refused."""
        from pyarrow.fs import FileSystem, LocalFileSystem

        if "://" in path:
            try:
                return cls(*FileSystem.from_uri(path))
            except (OSError, ValueError) as error:  # ArrowInvalid among them
                raise Refused(f"{path} names no folder: {error}") from None
        return cls(LocalFileSystem(), os.path.abspath(path))

    def make(self) -> None:
        """Make the folder if there is none; raises Refused."""
        try:
            self.files.create_dir(self.root, recursive=True)
        except OSError as error:
            raise Refused(f"{self.root} cannot be an archive: {error}") from None

    def at(self, *parts: str) -> str:
        return posixpath.join(self.root, *parts)

    def names(self, *parts: str) -> list[str]:
        """Return the names in a folder, sorted; none when there is no such folder."""
        from pyarrow.fs import FileSelector

        found = self.files.get_file_info(FileSelector(self.at(*parts), allow_not_found=True))
        return sorted(each.base_name for each in found)

    def has(self, *parts: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self.files.get_file_info(self.at(*parts)).type != FileType.NotFound)

    def write(self, text: str, *parts: str) -> None:
        """Write a small file so that it is there wholly or not at all."""
        target = self.at(*parts)
        draft = posixpath.join(posixpath.dirname(target), f"_{posixpath.basename(target)}.draft")
        self.files.create_dir(posixpath.dirname(target), recursive=True)
        with self.files.open_output_stream(draft) as stream:
            stream.write(text.encode())
        self.sync(draft)
        self.files.move(draft, target)
        self.sync_folders(target)

    def sync(self, path: str) -> None:
        """Wait until a file or folder is on the disk; other file systems have it when it is closed."""
        from pyarrow.fs import LocalFileSystem

        if isinstance(self.files, LocalFileSystem):
            fsync(path)

    def sync_folders(self, *paths: str) -> None:
        """Wait until the names of files are on the disk: in their folders, up to the archive's own."""
        folders: set[str] = set()
        for path in paths:
            while path != self.root and (path := posixpath.dirname(path)) not in folders:
                folders.add(path)
        for folder in sorted(folders, reverse=True):
            self.sync(folder)

    def read(self, *parts: str) -> str:
        with self.files.open_input_stream(self.at(*parts)) as stream:
            return bytes(stream.readall()).decode()


def fsync(path: str) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def folder_of(topic: str, day: str) -> str:
    """Return the folder of a topic's day; readers of such names decode what is quoted."""
    return f"topic={quote(topic, safe='')}/day={day}"


def batch_name(query: str, batch: int) -> str:
    """Return how staging and manifest call a batch; the numbers sort."""
    return f"{query}-{batch:012d}"


class Entry(NamedTuple):
    """One file of the manifest."""

    name: str
    commit: Mapping[str, Any]
    adds: tuple[Filed, ...]
    removes: tuple[str, ...]


class ParquetShelf:
    """An archive of Parquet files with a manifest."""

    def __init__(self, path: str) -> None:
        self.place = Place.of(path)

    # --- reading

    def entries(self) -> Iterator[Entry]:
        """Yield the manifest's entries, the oldest first."""
        names = [name for name in self.place.names(MANIFEST) if name.endswith(".jsonl")]
        found = [self._entry(name) for name in names]
        yield from sorted(found, key=lambda entry: (str(entry.commit["time"]), entry.name))

    def _entry(self, name: str) -> Entry:
        lines = [json.loads(line) for line in self.place.read(MANIFEST, name).splitlines()]
        adds = tuple(Filed.of(line["add"]) for line in lines if "add" in line)
        removes = tuple(line["remove"] for line in lines if "remove" in line)
        return Entry(name.removesuffix(".jsonl"), lines[0]["commit"], adds, removes)

    def live(self) -> list[Filed]:
        """Return the files that make up the archive now."""
        entries = list(self.entries())
        gone = {path for entry in entries for path in entry.removes}
        found = {each.path: each for entry in entries for each in entry.adds if each.path not in gone}
        return sorted(found.values())

    def ends(self) -> Offsets:
        """Return behind which offset of each queue the archive goes on."""
        return ends_of(each for entry in self.entries() for each in entry.adds)

    def has(self, query: str, batch: int) -> bool:
        """True when a batch is in the archive already."""
        if self.place.has(MANIFEST, f"{batch_name(query, batch)}.jsonl"):
            return True
        return any(
            batch <= entry.commit["done"].get(query, -1) for entry in self.entries() if "done" in entry.commit
        )

    # --- writing

    def staging_of(self, name: str) -> str:
        """Return where tasks put the files of a batch, emptied of what an earlier attempt left there."""
        folder = self.place.at(STAGING, name)
        self.place.files.create_dir(folder, recursive=True)
        self.place.files.delete_dir_contents(folder)
        return f"{STAGING}/{name}"

    def commit(
        self, name: str, adds: Sequence[Filed], facts: Mapping[str, Any], removes: Sequence[str] = ()
    ) -> None:
        """Make files part of the archive, and others no longer part of it; `facts` must have a `time`."""
        lines = [json.dumps({"commit": facts}, ensure_ascii=False)]
        lines += [each.line() for each in adds]
        lines += [json.dumps({"remove": path}) for path in removes]
        self.place.sync_folders(*(self.place.at(each.staged) for each in adds if each.staged))
        self.place.write("\n".join(lines) + "\n", MANIFEST, f"{name}.jsonl")
        self._finish(Entry(name, facts, tuple(adds), tuple(removes)))

    def _finish(self, entry: Entry) -> None:
        """Move an entry's files to where readers look; may be done again."""
        files, place = self.place.files, self.place
        for each in entry.adds:
            if each.staged and place.has(each.staged) and not place.has(each.path):
                files.create_dir(posixpath.dirname(place.at(each.path)), recursive=True)
                files.move(place.at(each.staged), place.at(each.path))
        place.sync_folders(*(place.at(each.path) for each in entry.adds))  # before what they stand for goes
        for path in entry.removes:
            if place.has(path):
                files.delete_file(place.at(path))
        if place.has(STAGING, entry.name):
            files.delete_dir(place.at(STAGING, entry.name))

    def recover(self) -> int:
        """Finish what an earlier run committed and did not get done; return how many commits that were."""
        finished = 0
        for name in self.place.names(STAGING):
            if self.place.has(MANIFEST, f"{name}.jsonl"):
                self._finish(self._entry(f"{name}.jsonl"))
                finished += 1
        return finished

    def fold(self, name: str, time: str) -> None:
        """Write a long manifest anew as one entry; needs an archive at which nobody else works."""
        entries = list(self.entries())
        if len(entries) < FOLD_FROM:
            return
        done: dict[str, int] = {}
        for entry in entries:
            for query, batch in entry.commit.get("done", {}).items():
                done[query] = max(batch, done.get(query, -1))
            if "query" in entry.commit:
                query = entry.commit["query"]
                done[query] = max(entry.commit["batch"], done.get(query, -1))
        self.commit(name, [each._replace(staged="") for each in self.live()], {"time": time, "done": done})
        for entry in entries:  # the oldest first: what one removes was added by an older one
            self.place.files.delete_file(self.place.at(MANIFEST, f"{entry.name}.jsonl"))


def ends_of(files: Iterable[Filed]) -> dict[QueueName, int]:
    """Return the largest end of each queue."""
    ends: dict[QueueName, int] = {}
    for each in files:
        for span in each.spans:
            queue = QueueName(span.broker, span.queue_id, each.topic)
            ends[queue] = max(span.end, ends.get(queue, 0))
    return ends


def merged_spans(files: Iterable[Filed]) -> tuple[Span, ...]:
    """Return the spans of several files as those of one."""
    found: dict[tuple[str, int], Span] = {}
    for each in files:
        for span in each.spans:
            known = found.get((span.broker, span.queue_id), span)
            found[span.broker, span.queue_id] = span._replace(
                start=min(known.start, span.start), end=max(known.end, span.end)
            )
    return tuple(found[key] for key in sorted(found))
