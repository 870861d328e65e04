from collections.abc import Sequence

from roquet.model.message import Entry

def key_rows(entries: Sequence[Entry]) -> bytes: ...
def queue_rows(entries: Sequence[Entry], owners: Sequence[int], counts: Sequence[int]) -> list[bytes]: ...
def file_rows(
    rows: bytes,
    position: int,
    table: bytearray,
    dirty: bytearray,
    slots: int,
    max_entries: int,
    begin_ms: int,
    number: int,
) -> tuple[bytes, int, int]: ...
def link(
    entries: bytes, number: int, newest_log_offset: int, table: bytearray, slots: int
) -> tuple[int, int]: ...
def count_valid(data: bytes) -> int: ...
