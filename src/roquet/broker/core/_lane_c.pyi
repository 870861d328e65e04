from collections.abc import Mapping, Sequence

from roquet.broker.core._lane_values import Run, Terms
from roquet.model.message import Draft, Host
from roquet.wire.frame import Frame

def drafts(
    frames: Sequence[Frame], start: int, code: int, topics: Mapping[str, int], born: Host, terms: Terms
) -> Run: ...
def replies(
    frames: Sequence[Frame],
    start: int,
    drafts: Sequence[Draft],
    log_offsets: Sequence[int],
    queue_offsets: Sequence[int],
    code: int,
    remark: str,
    terms: Terms,
    handles: Mapping[int, str],
) -> bytes: ...
