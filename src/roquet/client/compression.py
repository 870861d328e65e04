"""Bodies made smaller and opened again: the three ways that clients of the protocol know; pure.

    sys flag bits 0x700 >> 8     0 zlib (clients before 5.0 say nothing else) · 1 lz4 · 2 zstd · 3 zlib

lz4 means the lz4 frame, zstd a zstd frame, zlib the zlib stream. lz4 and zstandard are optional
packages: without them their bodies are refused by name.
"""

from __future__ import annotations

import zlib
from typing import Final, Literal

from roquet.client.errors import BadMessage, Misuse
from roquet.model.message import SysFlag

Compression = Literal["zlib", "lz4", "zstd"]

_TYPES: Final = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
_FLAGS: Final = {"zlib": 0x300, "lz4": 0x100, "zstd": 0x200}
BODY_BYTES_MAX: Final = 256 * 1024 * 1024
"""What a body may grow to when it is opened: a bomb ends here."""
ZSTD_STEP_BYTES: Final = 1024
"""zstandard opens all it is given at once, and four bytes may become 128 KiB: so it is given little."""


def flag_of(kind: Compression) -> int:
    """Return the bits that say how a body is compressed."""
    return SysFlag.COMPRESSED | _FLAGS[kind]


def deflate(body: bytes, kind: Compression, level: int = 5) -> bytes:
    """Return the body compressed; raises Misuse when the package for it is not installed."""
    if kind == "zlib":
        return zlib.compress(body, level)
    try:
        if kind == "lz4":
            import lz4.frame

            return bytes(lz4.frame.compress(body, compression_level=level))
        import zstandard
    except ImportError as error:
        raise Misuse(f"{kind} is not installed", hint=f"pip install {error.name}") from None
    return zstandard.ZstdCompressor(level=level).compress(body)


def inflate(body: bytes, sys_flag: int) -> bytes:
    """Return the body as it was before; raises BadMessage when it is damaged or too large."""
    kind = _TYPES.get((sys_flag & SysFlag.COMPRESSION_MASK) >> 8, "")
    try:
        if kind == "zlib":
            stream = zlib.decompressobj()
            opened = stream.decompress(body, BODY_BYTES_MAX)
            whole = stream.eof
        elif kind == "lz4":
            import lz4.frame

            reader = lz4.frame.LZ4FrameDecompressor()
            opened = bytes(reader.decompress(body, BODY_BYTES_MAX))
            whole = reader.eof
        elif kind == "zstd":
            opened, whole = _inflate_zstd(body)
        else:
            raise BadMessage(f"the body is compressed in a way that nobody knows (flag {sys_flag:#x})")
    except ImportError as error:
        raise BadMessage(
            f"the body is compressed with {kind}, which is not installed", hint=f"pip install {error.name}"
        ) from None
    except (zlib.error, RuntimeError, OSError, ValueError) as error:
        raise BadMessage(f"the body does not open as {kind}: {error}") from None
    except Exception as error:  # zstandard's own error class, without importing it here
        if type(error).__name__ != "ZstdError":
            raise
        raise BadMessage(f"the body does not open as {kind}: {error}") from None
    if not whole or len(opened) >= BODY_BYTES_MAX:
        raise BadMessage(f"the body is cut short, or larger than {BODY_BYTES_MAX} bytes once opened")
    return opened


def _inflate_zstd(body: bytes) -> tuple[bytes, bool]:
    """Return what a zstd frame holds, and whether it ended; a bomb is left soon after the limit."""
    import zstandard

    unpacker = zstandard.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    size_bytes = 0
    for position in range(0, len(body), ZSTD_STEP_BYTES):
        part = unpacker.decompress(body[position : position + ZSTD_STEP_BYTES])
        parts.append(part)
        size_bytes += len(part)
        if unpacker.eof or size_bytes >= BODY_BYTES_MAX:
            break
    return b"".join(parts), unpacker.eof
