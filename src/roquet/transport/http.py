"""One GET over a Net: enough to read a short text from a plain web server.

HTTP/1.0 without keep-alive, so that the end of the stream is the end of the text; no TLS, no redirects.
Used for the page that lists name servers.
"""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

from roquet.ports import Clock, Net

TEXT_BYTES_MAX: Final = 64 * 1024


async def get(net: Net, clock: Clock, url: str, timeout_s: float) -> str:
    """Return the text at `http://host[:port]/path`; raises OSError that says what went wrong."""
    parts = urlsplit(url)
    deadline = clock.monotonic() + timeout_s
    reader = _Reader()
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    transport, _ = await net.connect(lambda: reader, parts.hostname or "", parts.port or 80, timeout_s)
    timer = clock.call_at(deadline, reader.expire, f"no answer within {round(timeout_s, 3):g} s")
    try:
        lines = (f"GET {path} HTTP/1.0", f"Host: {parts.netloc}", "Connection: close", "", "")
        transport.write("\r\n".join(lines).encode())
        return _text(await reader.whole)
    finally:
        timer.cancel()
        transport.abort()


class _Reader(asyncio.Protocol):
    """Collects what comes until the peer closes."""

    def __init__(self) -> None:
        self._received = bytearray()
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > TEXT_BYTES_MAX:
            self._fail(OSError(f"the answer is longer than {TEXT_BYTES_MAX} bytes"))

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._fail(OSError(f"the connection broke: {error}"))
        elif not self.whole.done():
            self.whole.set_result(bytes(self._received))

    def expire(self, why: str) -> None:
        self._fail(TimeoutError(why))

    def _fail(self, error: OSError) -> None:
        if not self.whole.done():
            self.whole.set_exception(error)


def _text(answer: bytes) -> str:
    head, end, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    words = status.split(" ", 2)
    if not end or not words[0].startswith("HTTP/"):
        raise OSError("the answer is not HTTP, or cut short")
    if words[1:2] != ["200"]:
        raise OSError(f"the answer is {status}")
    return body.decode("utf-8", "replace")
