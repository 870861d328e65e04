from roquet.broker.core._lane_values import Run
from roquet.model.message import Draft

def drafts(body: bytes, shared: Draft, marks: frozenset[str], is_marked: bool) -> Run: ...
