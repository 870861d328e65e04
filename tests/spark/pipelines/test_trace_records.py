"""Records of traces: what our clients write is read back, what older and stranger ones write is survived."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from roquet.client.core import trace_text
from roquet.spark.pipelines.trace_records import Seen, read_batches, read_records


def test_what_clients_write_is_read_back() -> None:
    text = "".join(
        told.text
        for told in (
            trace_text.sent(7, "r", "p", "orders", "id", "tag", ("k",), "h:1", 9, 5, "", "off", True),
            trace_text.about_to_consume(8, "r", "c", "q", "id", 2, ("k",)),
            trace_text.consumed(9, "c", "q", "id", 30, "error", ()),
            trace_text.ended(10, "r", "p", "orders", "id", "", (), "h:1", "tx", "commit", False),
            trace_text.recalled(11, "r", "p", "orders", "id", True),
        )
    )
    assert list(read_records(text)) == [
        Seen("pub", 7, "p", "orders", "id", "", 5, True, 0),
        Seen("before", 8, "c", "", "id", "q", 0, True, 2),
        Seen("after", 9, "c", "", "id", "q", 30, False, 0),
        Seen("end", 10, "p", "orders", "id", "", 0, True, 0),
        Seen("recall", 11, "p", "orders", "id", "", 0, True, 0),
    ]


def test_older_clients_say_less() -> None:
    pub = "\x01".join(["Pub", "7", "r", "null", "orders", "id", "t", "k", "h", "9", "5", "0"])
    after = "\x01".join(["SubAfter", "q", "id", "30", "true", "k", "0"])
    assert list(read_records(f"{pub}\x02{after}\x02")) == [
        Seen("pub", 7, "", "orders", "id", "", 5, True, 0),
        Seen("after", None, "", "", "id", "q", 30, True, 0),
    ]


def test_a_send_that_failed() -> None:
    (seen,) = read_records(trace_text.sent(7, "", "p", "t", "i", "", (), "h", 9, 5, "", "o", False).text)
    assert seen is not None and not seen.is_ok


@given(st.text(alphabet="Pub\x01\x02SeforA7-", max_size=60))
def test_nothing_breaks_it(text: str) -> None:
    for seen in read_records(text):
        assert seen is None or isinstance(seen, Seen)


def test_messages_become_rows_and_what_cannot_be_read_is_marked() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    bodies = [trace_text.recalled(1_000, "r", "p", "t", "i", True).text.encode(), b"\xff\x02", b""]
    batch = pa.RecordBatch.from_pydict(
        {
            "body": pa.array(bodies, pa.binary()),
            "born_host": pa.array(["h:1"] * 3),
            "store_time": pa.array([noon] * 3, pa.timestamp("us", "UTC")),
        }
    )
    (rows,) = read_batches([batch])
    assert [row["kind"] for row in rows.to_pylist()] == ["recall", "bad"]
    assert rows.to_pylist()[0]["when"] == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert rows.to_pylist()[1]["carried"] == noon
