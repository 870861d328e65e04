"""A TCP proxy that writes down every remoting frame that passes, in both directions.

Stands between Java software (client, mqadmin, broker) and a server. The trick that needs no rewriting of
routes: the server listens on 127.0.0.1 and calls itself 127.0.0.2; the proxy listens there, on the same port.
It changes no byte and knows of a frame only its length word and, for pairing, its header.
"""

import contextlib
import socket
import threading
from typing import NamedTuple

from tests.golden.capture.raw import Exchange, header_of


class Passed(NamedTuple):
    """A frame on its way: which connection, from whom, and its bytes."""

    connection: int
    from_client: bool
    data: bytes


class Proxy:
    """Listens on one address, forwards to another; `passed` grows in the order of arrival."""

    def __init__(self, listen: str, forward: str) -> None:
        self._forward = _address(forward)
        self._listener = socket.create_server(_address(listen), backlog=64)
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self.passed: list[Passed] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: we are done
            for number in range(1 << 30):
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._forward)
                except OSError:
                    client.close()
                    continue
                self._connections += [client, server]
                for source, sink, from_client in ((client, server, True), (server, client, False)):
                    arguments = (number, source, sink, from_client)
                    threading.Thread(target=self._pump, args=arguments, daemon=True).start()

    def _pump(self, number: int, source: socket.socket, sink: socket.socket, from_client: bool) -> None:
        pending = bytearray()
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 16):
                sink.sendall(chunk)
                pending += chunk
                while len(pending) >= 4 and len(pending) >= (end := 4 + int.from_bytes(pending[:4])):
                    with self._lock:
                        self.passed.append(Passed(number, from_client, bytes(pending[:end])))
                    del pending[:end]
        for end_point in (source, sink):
            with contextlib.suppress(OSError):
                end_point.shutdown(socket.SHUT_RDWR)

    def exchanges(self, code: int) -> list[Exchange]:
        """Return the requests of this code with their answers; a one-way request has an empty answer."""
        with self._lock:
            passed = list(self.passed)
        found: list[Exchange] = []
        for index, one in enumerate(passed):
            header = header_of(one.data)
            if header.is_response or header.code != code:
                continue
            answer = b""
            for later in passed[index + 1 :]:
                if later.connection != one.connection or later.from_client == one.from_client:
                    continue
                reply = header_of(later.data)
                if reply.is_response and reply.opaque == header.opaque:
                    answer = later.data
                    break
            found.append(Exchange(one.data, answer))
        return found

    def close(self) -> None:
        # Closing alone would leave the port taken for as long as the thread waits in accept().
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()


def _address(text: str) -> tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)
