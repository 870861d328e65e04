"""The protocol state of one stream: frames however the bytes are cut, answers that find their asker."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roquet.wire.connection import WAITING_MAX, Connection, TooManyWaiting
from roquet.wire.frame import FRAME_BYTES_MAX, Frame, FrameError, join
from tests.wire.frames import ANY_FRAME


@given(st.lists(ANY_FRAME, min_size=1, max_size=5), st.data())
def test_any_cutting_gives_the_same_frames(frames: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(map(join, frames))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    connection: Connection[str] = Connection()
    got: list[Frame] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += connection.receive_data(stream[start:end])
    assert got == frames
    assert connection.buffered_bytes == 0


def test_byte_by_byte() -> None:
    frames = [Frame(1, 1, 0, {"a": "b"}, b"body"), Frame(2)]
    connection: Connection[str] = Connection()
    got = [frame for byte in b"".join(map(join, frames)) for frame in connection.receive_data(bytes([byte]))]
    assert got == frames


@pytest.mark.parametrize("length", [-1, 3, FRAME_BYTES_MAX - 3, 2**31 - 1])
@pytest.mark.parametrize("cut", [0, 1, 4])
def test_an_impossible_length_is_refused_however_it_comes(length: int, cut: int) -> None:
    connection: Connection[str] = Connection()
    data = struct.pack(">i", length)
    with pytest.raises(FrameError):
        for piece in (data[:cut], data[cut:], b"more"):
            connection.receive_data(piece)


def test_what_is_kept_back_is_less_than_one_frame() -> None:
    connection: Connection[str] = Connection()
    data = join(Frame(1, body=bytes(100_000)))
    for start in range(0, len(data) - 1, 1000):
        assert connection.receive_data(data[start : min(start + 1000, len(data) - 1)]) == []
        assert connection.buffered_bytes < len(data)
    [frame] = connection.receive_data(data[-1:] + data[:10])
    assert len(frame.body) == 100_000 and connection.buffered_bytes == 10


def test_an_answer_finds_its_request_once() -> None:
    connection: Connection[str] = Connection()
    first, second = connection.next_opaque(), connection.next_opaque()
    assert first != second
    connection.wait_for(first, 1.0, "first")
    connection.wait_for(second, 2.0, "second")
    assert connection.match(Frame(0, second, 1)) == "second"
    assert connection.match(Frame(0, second, 1)) is None  # answered twice
    assert connection.match(Frame(0, 4711, 1)) is None  # nobody asked
    connection.forget(first)
    assert connection.match(Frame(0, first, 1)) is None  # too late


def test_requests_expire_at_their_deadline() -> None:
    connection: Connection[str] = Connection()
    for opaque, deadline in ((1, 1.0), (2, 3.0), (3, 2.0)):
        connection.wait_for(opaque, deadline, f"at {deadline}")
    assert connection.expire(0.9) == []
    assert connection.expire(2.0) == ["at 1.0", "at 2.0"]
    assert connection.match(Frame(0, 1, 1)) is None
    assert connection.match(Frame(0, 2, 1)) == "at 3.0"


def test_numbers_that_wait_are_not_given_again() -> None:
    connection: Connection[str] = Connection()
    connection._opaque = 0x7FFFFFFE
    assert connection.next_opaque() == 0x7FFFFFFF
    connection.wait_for(0, 1.0, "waits")
    connection.wait_for(1, 1.0, "waits")
    assert connection.next_opaque() == 2


def test_the_number_of_waiting_requests_is_bounded() -> None:
    connection: Connection[int] = Connection()
    for opaque in range(WAITING_MAX):
        connection.wait_for(opaque, 1.0, opaque)
    with pytest.raises(TooManyWaiting, match=str(WAITING_MAX)):
        connection.wait_for(WAITING_MAX, 1.0, 0)
    assert len(connection.drop_all()) == WAITING_MAX
    assert connection.drop_all() == []


def test_a_dropped_connection_forgets_its_bytes() -> None:
    connection: Connection[str] = Connection()
    connection.receive_data(join(Frame(1))[:-1])
    connection.drop_all()
    assert connection.buffered_bytes == 0
