"""Bytes that are no request, and requests that are too much: each is refused in one line, serving goes on.

Every test ends with a send and a read through another connection. What is wrong inside well-formed requests
is the affair of test_bad_fields, too many peers that of test_bad_peers.
"""

import asyncio
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.client import Answered, connect
from roquet.model.message import SysFlag
from roquet.wire.codes import FLAG_ONE_WAY, FLAG_REPLY, Code
from roquet.wire.frame import FRAME_BYTES_MAX, HEADER_BYTES_MAX, Frame, join
from roquet.wire.requests.names import RegisterBroker
from roquet.wire.requests.send import SendBatch, SendV2
from roquet.wire.row import row_of
from tests.peers import roquet
from tests.process.rude import Rude, Watch

pytestmark = pytest.mark.process

MIB = 1 << 20


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[roquet.RoquetNode]:
    running = roquet.start_up(tmp_path_factory.mktemp("bad") / "store")
    try:
        yield running
        running.stop()
    finally:
        running.kill()


@pytest.fixture
def watch(node: roquet.RoquetNode) -> Iterator[Watch]:
    """Watch the server, and see at the end that it still serves."""
    yield Watch(node.process)
    asyncio.run(serves(node.namesrv))


async def serves(namesrv: str) -> None:
    async with connect(namesrv) as client:
        sent = await client.send("served", b"still here")
        (message,) = await client.read("served", sent.queue_id, sent.queue_offset)
        assert message.body == b"still here"


def header_of(text: bytes, encoding: int = 0, lie_bytes: int = 0) -> bytes:
    """Return a frame around a header; `lie_bytes` is added to what it says of the header's length."""
    word = encoding << 24 | (len(text) + lie_bytes) & 0xFFFFFF
    return (4 + len(text)).to_bytes(4, "big") + word.to_bytes(4, "big") + text


NO_FRAMES = {
    "ones": b"\xff" * 1000,
    "zeros": b"\0" * 1000,
    "text": b"hello, is this a database?\n" * 10,
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls-client-hello": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "2-gb-length": b"\x7f\xff\xff\xff" + b"\0\0\0\x10{}",
    "negative-length": b"\xff\xff\xff\xfe" + b"\0\0\0\x10{}",
    "min-length": b"\x80\0\0\0" + b"\0\0\0\x10{}",
    "just-over-the-limit": (FRAME_BYTES_MAX - 3).to_bytes(4, "big") + b"\0\0\0\x10{}",
    "length-below-its-header-word": b"\0\0\0\x03" + b"\0\0\0\x00",
    "header-longer-than-frame": header_of(b'{"code":34}', lie_bytes=1),
    "header-far-longer-than-frame": header_of(b'{"code":34}', lie_bytes=0xFFFF00),
    "header-shorter-than-it-is": header_of(b'{"code":34}', lie_bytes=-1),
    "header-over-its-limit": header_of(b'{"code":34,"remark":"' + b"x" * HEADER_BYTES_MAX + b'"}'),
    "unknown-encoding": header_of(b'{"code":34}', encoding=2),
    "negative-encoding": header_of(b'{"code":34}', encoding=0xFF),
    "json-is-no-object": header_of(b"[1,2,3]"),
    "json-cut-short": header_of(b'{"code":34'),
    "json-not-utf-8": header_of(b'{"code":34,"remark":"\xff\xfe"}'),
    "json-nested-deep": header_of(b'{"extFields":' + b"[" * 30_000 + b"]" * 30_000 + b"}"),
    "json-code-too-wide": header_of(b'{"code":340000000000000000000}'),
    "json-code-a-list": header_of(b'{"code":[34]}'),
    "json-fields-a-list": header_of(b'{"code":34,"extFields":["topic"]}'),
    "json-too-many-fields": header_of(
        b'{"code":34,"extFields":{' + b",".join(b'"f%d":"1"' % n for n in range(2_000)) + b"}}"
    ),
    "binary-cut-short": header_of(b"\0\x22\0\0\0", encoding=1),
    "binary-remark-lies": header_of(
        b"\0\x22\0\0\0\0\0\0\1\0\0\0\0" + b"\x7f\xff\xff\xff" + b"\0\0\0\0", encoding=1
    ),
    "binary-fields-lie": header_of(
        b"\0\x22\0\0\0\0\0\0\1\0\0\0\0" + b"\0\0\0\0" + b"\0\0\0\x40" + b"\x7f\xff", encoding=1
    ),
}


@pytest.mark.parametrize("name", NO_FRAMES)
@pytest.mark.parametrize("program", ["broker", "namesrv"])
def test_what_is_no_frame_closes_the_connection_with_one_line(
    node: roquet.RoquetNode, watch: Watch, program: str, name: str
) -> None:
    address = node.broker if program == "broker" else node.namesrv
    with watch.lines(at_most=1), Rude(address) as peer:
        peer.send(NO_FRAMES[name])
        assert peer.is_closed()


def test_a_good_request_before_garbage_is_still_answered(node: roquet.RoquetNode, watch: Watch) -> None:
    request = SendV2("p", "served", "TBW102", 4, 0, 0, 0, 0)
    frame = join(Frame(310, 7, 0, request.encode(), b"x"))
    with watch.lines(at_most=1), Rude(node.broker) as peer:
        peer.send(frame)
        assert [answer.code for answer in peer.answers(1)] == [Code.SUCCESS]
        peer.send(b"\xff" * 8)
        assert peer.is_closed()


@pytest.mark.parametrize("code", [1, 9_999, 200_050, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("program", ["broker", "namesrv"])
def test_unknown_codes_are_answered_as_such(
    node: roquet.RoquetNode, watch: Watch, program: str, code: int
) -> None:
    address = node.broker if program == "broker" else node.namesrv
    with watch.lines(at_most=0), Rude(address) as peer:
        (answer,) = peer.ask([Frame(code, body=b"whatever")])
        assert answer.code == Code.REQUEST_CODE_NOT_SUPPORTED
        # A one-way request and an answer that nobody waits for get no answer, and leave the link up.
        peer.send(join(Frame(code, 5, FLAG_ONE_WAY)) + join(Frame(0, 6, FLAG_REPLY)))
        (answer,) = peer.ask([Frame(code)])
        assert answer.opaque == 0


def test_bodies_over_the_limits_are_refused(node: roquet.RoquetNode, watch: Watch) -> None:
    async def main() -> None:
        async with connect(node.namesrv) as client:
            with pytest.raises(Answered) as refused:
                await client.send("served", bytes(4 * MIB + 1))
            assert refused.value.code == Code.MESSAGE_ILLEGAL
            with pytest.raises(Answered) as refused:
                await client.send("served", b"x", properties={"long": "x" * 32_767})
            assert refused.value.code == Code.MESSAGE_ILLEGAL

    with watch.lines(at_most=0):
        asyncio.run(main())
    with watch.lines(at_most=1), Rude(node.broker) as peer:
        request = SendV2("p", "served", "TBW102", 4, 0, 0, 0, 0)
        peer.send(join(Frame(310, 1, 0, request.encode(), bytes(17 * MIB))))
        assert peer.is_closed()


def bomb(size_bytes: int) -> bytes:
    """Return zeros, compressed: a piece is packed once, and goes in as often as it takes."""
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    piece, count = bytes(MIB), size_bytes // MIB
    packed = packer.compress(piece) + packer.flush(zlib.Z_FULL_FLUSH)
    last = packer.flush()
    checksum = 1
    for _ in range(count):
        checksum = zlib.adler32(piece, checksum)
    return b"\x78\xda" + packed * count + last + checksum.to_bytes(4, "big")


def test_compressed_bombs_are_stored_as_they_are(node: roquet.RoquetNode, watch: Watch) -> None:
    body = bomb(128 * MIB)
    item = bytes(12) + len(body).to_bytes(4, "big") + body + b"\0\0"
    batch = (4 + len(item)).to_bytes(4, "big") + item
    flag = SysFlag.COMPRESSED.value
    request = SendBatch("p", "bombs", "TBW102", 4, 0, flag, 0, 0, batch=True)
    before = watch.resident_bytes()
    with watch.lines(at_most=0), Rude(node.broker) as peer:
        answers = peer.ask([Frame(row_of(SendBatch).code, 0, 0, request.encode(), batch * 10)] * 3)
        assert [answer.code for answer in answers] == [Code.SUCCESS] * 3

    async def read() -> None:
        async with connect(node.namesrv) as client:
            messages = await client.read("bombs", 0, 29)
            assert [message.body for message in messages] == [body]

    asyncio.run(read())
    assert watch.resident_bytes() - before < 64 * MIB


def test_a_compressed_bomb_in_a_registration_is_not_unpacked(node: roquet.RoquetNode, watch: Watch) -> None:
    body = bomb(512 * MIB)
    request = RegisterBroker(
        "rude",
        "127.0.0.1:1",
        "Rude",
        "127.0.0.1:2",
        0,
        compressed=True,
        body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
    )
    before = watch.resident_bytes()
    with watch.lines(at_most=3), Rude(node.namesrv) as peer:
        answers = peer.ask([Frame(row_of(RegisterBroker).code, 0, 0, request.encode(), body)] * 3)
        assert Code.SUCCESS not in [answer.code for answer in answers]
    assert watch.resident_bytes() - before < 64 * MIB


def test_half_a_frame_and_then_silence_is_closed_after_the_idle_time(tmp_path: Path) -> None:
    node = roquet.start_up(tmp_path / "store", settings={"serverChannelMaxIdleTimeSeconds": "1"})
    frame = join(Frame(310, 1, 0, {"a": "p"}, bytes(1000)))
    try:
        watch = Watch(node.process)
        with watch.lines(at_most=2), Rude(node.broker) as little, Rude(node.broker) as most:
            little.send(frame[:3])
            most.send(frame[:-1])
            asyncio.run(serves(node.namesrv))
            little.wait_s(30)
            most.wait_s(30)
            assert little.is_closed() and most.is_closed()
        asyncio.run(serves(node.namesrv))
        node.stop()
    finally:
        node.kill()
