"""Bodies made smaller and opened again, and those that must not be opened."""

from __future__ import annotations

import zlib

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.client import compression
from roquet.client.compression import Compression, deflate, flag_of, inflate
from roquet.client.errors import BadMessage

KINDS: list[Compression] = ["zlib", "lz4", "zstd"]


@pytest.mark.parametrize("kind", KINDS)
@given(body=st.binary(max_size=3_000))
@settings(max_examples=30)
def test_what_is_packed_opens_again(kind: Compression, body: bytes) -> None:
    assert inflate(deflate(body, kind), flag_of(kind)) == body


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_or_damaged_body_is_refused(kind: Compression) -> None:
    packed = deflate(b"abc" * 1_000, kind)
    with pytest.raises(BadMessage, match="cut short"):
        inflate(packed[:-5], flag_of(kind))
    with pytest.raises(BadMessage, match=f"does not open as {kind}"):
        inflate(b"\xff" * 40, flag_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_ends_at_the_limit(kind: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = deflate(bytes(8 << 20), kind)
    monkeypatch.setattr(compression, "BODY_BYTES_MAX", 1 << 20)
    with pytest.raises(BadMessage, match="larger than"):
        inflate(packed, flag_of(kind))


def test_a_zstd_bomb_is_left_before_it_has_gone_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros pack at 1 : 30,000, so that the limit is passed long before the input's end."""
    monkeypatch.setattr(compression, "BODY_BYTES_MAX", 1 << 20)
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    packed = b"".join(stream.compress(bytes(1 << 20)) for _ in range(300)) + stream.flush()
    assert len(packed) > 4 * compression.ZSTD_STEP_BYTES
    opened, whole = compression._inflate_zstd(packed)
    assert not whole and len(opened) < 60 << 20


def test_clients_before_5_0_say_nothing_and_mean_zlib() -> None:
    assert inflate(zlib.compress(b"old"), 0x1) == b"old"


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(BadMessage, match="nobody knows"):
        inflate(b"x", 0x701)
