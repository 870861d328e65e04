from collections.abc import Mapping

from roquet.wire.header import Frame

def split(data: bytes | bytearray) -> tuple[list[Frame], int]: ...
def reply_head(
    code: int, opaque: int, ext: Mapping[str, str], remark: str, body_size: int, encoding: int
) -> bytes: ...
