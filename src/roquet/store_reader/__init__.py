"""A store's files as Arrow record batches, without a broker: live, stopped, a backup, Apache's or ours.

    import roquet.store_reader as reader

    for batch in reader.read("data/store", topics=["orders"]):
        print(batch.num_rows, batch.column("body"))

    pyarrow.Table.from_batches(reader.read("data/store"))      ▶ pandas, Polars, DuckDB

`plan` looks once at the end of the log and cuts what is there into byte ranges (a consistent snapshot:
what a running broker appends afterwards is not in it); `read_range` reads one of them, in any process.
`read` does both, one range after the other. It takes the folder of a store, or a folder that holds only
files of a commit log. Nothing is written, nothing is locked.
"""

from __future__ import annotations

from roquet.store_reader.files import NotAStore
from roquet.store_reader.plan import Filter, Range, plan
from roquet.store_reader.scan import DamagedStore, read, read_range, schema

__all__ = ["DamagedStore", "Filter", "NotAStore", "Range", "plan", "read", "read_range", "schema"]
