"""A peer that does not keep to the rules, and an eye on the server that has to bear it.

`Rude` is one connection over which any bytes can be sent; it waits for answers with a bound. `Watch` looks at
the log and the memory of the server: what may be said of a bad peer is one line, and never a traceback.
"""

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from roquet.wire.frame import Frame, join, split
from tests.peers.child import Child

PATIENCE_S = 60.0
CHUNK_BYTES = 1 << 18
LOUD = re.compile(r"^\S+Z (WARN|ERROR|CRITICAL) ")


class Rude:
    """One connection to `host:port`; a context manager."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._received = bytearray()

    def send(self, data: bytes) -> None:
        """Send bytes; a server that has closed already is fine."""
        try:
            self._socket.sendall(data)
        except ConnectionError:
            return

    def push(self, data: bytes) -> None:
        """Send as much as the server takes without our reading anything; the rest is dropped."""
        self._socket.setblocking(False)
        view = memoryview(data)
        try:
            while view:
                view = view[self._socket.send(view) :]
        except BlockingIOError:
            return

    def answers(self, count: int) -> list[Frame]:
        """Return the next frames; raises TimeoutError or ConnectionError when there are not so many."""
        frames: list[Frame] = []
        while len(frames) < count:
            chunk = self._socket.recv(CHUNK_BYTES)
            if not chunk:
                raise ConnectionError(f"closed after {len(frames)} of {count} answers")
            self._received += chunk
            more, used = split(self._received)
            del self._received[:used]
            frames += more
        return frames

    def is_closed(self) -> bool:
        """Wait until the server closes and return True, or False when it says something instead."""
        try:
            return not self._socket.recv(1)
        except ConnectionError:
            return True

    def ask(self, frames: Sequence[Frame]) -> list[Frame]:
        """Send requests and return one answer for each, in the order of the requests."""
        self.send(b"".join(join(frame._replace(opaque=number)) for number, frame in enumerate(frames)))
        answers = {answer.opaque: answer for answer in self.answers(len(frames))}
        assert sorted(answers) == list(range(len(frames))), "an answer came twice, or to nobody's question"
        return [answers[number] for number in range(len(frames))]

    def wait_s(self, patience_s: float) -> None:
        """Have more patience than usual from here on."""
        self._socket.settimeout(patience_s)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "Rude":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class Watch:
    """What a server has said and how much memory it takes."""

    def __init__(self, process: Child) -> None:
        self._process = process

    @contextmanager
    def lines(self, at_most: int) -> Iterator[None]:
        """Check that what happens in the block makes at most so many warnings, and no error or traceback."""
        before = len(self._process.text())
        yield
        said = self._process.text()[before:].splitlines()
        loud = [line for line in said if LOUD.match(line) or "Traceback" in line]
        assert len(loud) <= at_most, "\n".join(loud[:20])
        wrong = [line for line in loud if " WARN " not in line or "Traceback" in line]
        assert not wrong, "\n".join(wrong[:20])
        assert self._process.alive()

    def resident_bytes(self) -> int:
        """Return the memory that the process holds now (VmRSS)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024
