from collections.abc import Sequence

from roquet.model.message import Draft, Host
from roquet.store.format._record_values import Scan, Survey

def encode(draft: Draft, queue_offset: int, log_offset: int, store_ms: int, store_host: Host) -> bytes: ...
def scan(
    data: bytes, log_offset: int, file_end: int, check_crc: bool, delays_ms: Sequence[int], entries_max: int
) -> Scan: ...
def survey(
    data: bytes, log_offset: int, file_end: int, check_crc: bool, delays_ms: Sequence[int]
) -> Survey: ...
def describe(
    topic: str, properties: bytes, store_ms: int, delays_ms: Sequence[int]
) -> tuple[int, tuple[str, ...]]: ...
