"""Cut frames out of a buffer: the readable twin, which is the specification of `_frame_c`."""

from __future__ import annotations

from roquet.wire.header import (
    FRAME_BYTES_MAX,
    HEADER_BYTES_MAX,
    Frame,
    FrameError,
    decode_header,
)


def split(data: bytes | bytearray) -> tuple[list[Frame], int]:
    """Return the whole frames at the start of `data` and how many bytes they take.

    An unfinished frame at the end is left for the next call. Raises FrameError as soon as the bytes
    cannot be the beginning of a legal frame: the caller closes the connection.
    """
    frames = []
    position = 0
    end = len(data)
    while end - position >= 4:
        length = int.from_bytes(data[position : position + 4], "big", signed=True)
        if length < 4 or length > FRAME_BYTES_MAX - 4:
            raise FrameError(f"length word {length}, allowed are 4 to {FRAME_BYTES_MAX - 4}")
        if end - position < 8:
            break
        word = int.from_bytes(data[position + 4 : position + 8], "big")
        header_size = word & 0xFFFFFF
        if header_size > length - 4:
            raise FrameError(f"header of {header_size} bytes in a frame of {length}")
        if header_size > HEADER_BYTES_MAX:
            raise FrameError(f"header of {header_size} bytes, allowed are {HEADER_BYTES_MAX}")
        if end - position < 4 + length:
            break
        start = position + 8
        position += 4 + length
        frames.append(
            decode_header(
                word >> 24,
                bytes(data[start : start + header_size]),
                bytes(data[start + header_size : position]),
            )
        )
    return frames, position
