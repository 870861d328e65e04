from collections.abc import Sequence

from roquet.model.message import Draft, Entry, Host
from roquet.store.format._run_values import Shared

def share_out(drafts: Sequence[Draft]) -> Shared: ...
def lay_out(
    drafts: Sequence[Draft],
    queue_offsets: Sequence[int],
    log_offset: int,
    store_ms: int,
    store_host: Host,
    delays_ms: Sequence[int],
    with_crc: bool,
) -> tuple[bytes, list[Entry]]: ...
