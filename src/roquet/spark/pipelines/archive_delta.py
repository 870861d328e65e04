"""An archive as a Delta table, without a jar: tasks write Parquet files, the driver commits them.

The Delta log is the manifest: each commit carries the query and the number of its batch as an application
transaction, and beside it how far the archive has come in each queue. A batch whose number the table has is
not added again. Files of attempts that failed are never referred to and go with the next vacuum.
Reference: the Delta protocol's `add`, `txn` and `commitInfo`; the library deltalake writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from roquet.model.route import QueueName
from roquet.spark.pipelines.archive_files import Filed, Place, ends_of
from roquet.spark.pipelines.summary import Refused
from roquet.spark.plan import Offsets, per_queue, to_json

if TYPE_CHECKING:
    from deltalake import DeltaTable

ENDS: Final = "roquet.ends"
"""In a commit's own facts: where the archive goes on, as offsets in JSON."""
HISTORY_MAX: Final = 50
"""Commits to look back through for one of ours; compactions lie between."""
FILES: Final = "messages"
LOG: Final = "_delta_log"


class DeltaShelf:
    """An archive that Delta readers read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.place = Place.of(path)

    def live(self) -> list[Filed]:
        """Return the files of the table as it is now."""
        table = self._table()
        if table is None:
            return []
        found = table.get_add_actions(flatten=True)
        return sorted(_filed(row) for row in _arrow(found).to_pylist())

    def ends(self) -> Offsets:
        """Return behind which offset of each queue the archive goes on."""
        table = self._table()
        for commit in table.history(HISTORY_MAX) if table is not None else ():
            if ENDS in commit:
                return per_queue(json.loads(commit[ENDS])["topics"], least=0)
        return {}

    def has(self, query: str, batch: int) -> bool:
        """True when a batch is in the table already."""
        table = self._table()
        done = None if table is None else table.transaction_version(query)
        return done is not None and done >= batch  # 0 is a batch like any other

    def staging_of(self, name: str) -> str:
        """Return where tasks put their files: where they stay."""
        return FILES

    def commit_batch(self, query: str, batch: int, adds: Sequence[Filed], facts: Mapping[str, Any]) -> None:
        """Make files part of the table, once for each query and batch."""
        from deltalake import CommitProperties
        from deltalake.transaction import AddAction, RemoveAction, Transaction

        ends: dict[QueueName, int] = dict(self.ends())
        for queue, end in ends_of(adds).items():
            ends[queue] = max(end, ends.get(queue, 0))
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                each.staged,
                each.size_bytes,
                {"topic": each.topic, "day": each.day},
                now_ms,
                True,
                _stats(each),
            )
            for each in adds
        ]
        self.place.sync_folders(*(self.place.at(each.staged) for each in adds))
        table = self._made()
        table.create_write_transaction(
            actions,
            "append",
            table_schema(),
            ["topic", "day"],
            commit_properties=CommitProperties(
                custom_metadata={ENDS: json.dumps(to_json(ends)), "roquet.facts": json.dumps(facts)},
                app_transactions=[Transaction(query, batch)],
            ),
        )
        self._sync_log(table)

    def recover(self) -> int:
        """Return 0: a commit of Delta is whole."""
        return 0

    def compact(self, size_bytes: int) -> int:
        """Join small files up to about that size, drop what is unused; return how many were joined."""
        table = self._table()
        if table is None:
            return 0
        before = {each.path for each in self.live()}
        told = table.optimize.compact(target_size=size_bytes)
        for each in self.live():
            if each.path not in before:
                self.place.sync(self.place.at(each.path))
                self.place.sync_folders(self.place.at(each.path))
        self._sync_log(table)
        table.vacuum(dry_run=False)
        return int(told["numFilesRemoved"])

    def _sync_log(self, table: DeltaTable) -> None:
        """Wait until the newest commit is on the disk; the library leaves it to the system."""
        table.update_incremental()
        entry = self.place.at(LOG, f"{table.version():020d}.json")
        self.place.sync(entry)
        self.place.sync_folders(entry)

    def _table(self) -> DeltaTable | None:
        deltalake = _deltalake()
        return deltalake.DeltaTable(self._path) if deltalake.DeltaTable.is_deltatable(self._path) else None

    def _made(self) -> DeltaTable:
        found = self._table()
        if found is not None:
            return found
        made: DeltaTable = _deltalake().DeltaTable.create(
            self._path, table_schema(), mode="ignore", partition_by=["topic", "day"], name="roquet archive"
        )
        return made


def table_schema() -> Any:
    """Return the table's schema: the columns of a message, and the day."""
    import pyarrow as pa

    from roquet.arrow import schema

    return schema().append(pa.field("day", pa.date32()))


def _stats(file: Filed) -> str:
    found = {
        "numRecords": file.rows,
        "minValues": {
            "queue_offset": min(span.start for span in file.spans),
            "store_time": file.first_time,
        },
        "maxValues": {
            "queue_offset": max(span.end for span in file.spans) - 1,
            "store_time": file.last_time,
        },
        "nullCount": {"queue_offset": 0, "store_time": 0},
    }
    return json.dumps(found)


def _filed(row: Mapping[str, Any]) -> Filed:
    first, last = row.get("min.store_time"), row.get("max.store_time")
    times = [_utc(first or datetime.min).isoformat(), _utc(last or datetime.max).isoformat()]
    day = row["partition.day"]
    return Filed(
        unquote(row["path"]),  # the log holds URIs
        row["partition.topic"],
        str(day),
        row.get("num_records") or 0,
        row["size_bytes"],
        (),
        *times,
    )


def _utc(time: datetime) -> datetime:
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _arrow(found: Any) -> Any:
    import pyarrow as pa

    return pa.table(found)


def _deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise Refused("deltalake is not installed: pip install deltalake, or archive as parquet") from None
    return deltalake
