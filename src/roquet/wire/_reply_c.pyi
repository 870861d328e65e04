from collections.abc import Mapping

def reply_head(
    code: int, opaque: int, ext: Mapping[str, str], remark: str, body_size: int, encoding: int
) -> bytes: ...
