"""The real network: TCP through the running event loop.

Thin on purpose: it sets the socket options that RocketMQ nodes expect of each other (no Nagle delay,
address reuse, a backlog of 1024), turns the operating system's terse errors into sentences that say
which address failed and what to do, and keeps the last descriptors for files (see `descriptors`). It
knows nothing of frames, TLS or reconnecting.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import Callable
from typing import cast

from roquet.ports import Listener
from roquet.runtime.descriptors import UNLIMITED, descriptor_limit, first_kept

log = logging.getLogger("roquet.transport")

BACKLOG = 1024  # what Apache's servers ask for; a reconnect storm of a whole cluster fits
WARN_SECONDS = 5.0  # between two lines about refused connections, however many knock


class RealListener:
    """A listening socket; see `roquet.ports.Listener`."""

    __slots__ = ("_address", "_server")

    def __init__(self, server: asyncio.AbstractServer, address: tuple[str, int]) -> None:
        self._server = server
        self._address = address

    @property
    def address(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._server.close()


class RealNet:
    """TCP connections; see `roquet.ports.Net`."""

    __slots__ = ("_warned_at",)

    def __init__(self) -> None:
        self._warned_at = float("-inf")

    async def listen(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        loop = asyncio.get_running_loop()
        try:
            sock = await _bound_socket(host, port)
        except UnicodeError:  # how Python says that the text cannot be a host name at all
            raise OSError(errno.EINVAL, f"cannot listen on {host}:{port}: {host!r} is no host name") from None
        except OSError as error:
            raise _explained(error, _listen_advice(error, host, port)) from None
        listening, first = sock.fileno(), first_kept(descriptor_limit())

        def accept() -> asyncio.Protocol:
            return factory() if _lowest_free(listening) < first else self._refusal()

        try:
            server = await loop.create_server(accept, sock=sock, backlog=BACKLOG)
        except OSError as error:
            sock.close()
            raise _explained(error, _listen_advice(error, host, port)) from None
        name = sock.getsockname()
        return RealListener(server, (name[0], name[1]))

    def _refusal(self) -> asyncio.Protocol:
        now = time.monotonic()
        if now - self._warned_at > WARN_SECONDS:
            self._warned_at = now
            log.warning(
                "refusing connections: the %d open files that this process is allowed are nearly used up, "
                "and the rest is kept for messages (raise the limit, `ulimit -n`)",
                descriptor_limit(),
            )
        return _Refused()

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_s: float
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                return await loop.create_connection(factory, host, port)
        except TimeoutError:
            raise TimeoutError(
                errno.ETIMEDOUT, f"no answer from {host}:{port} within {timeout_s:g} s"
            ) from None
        except UnicodeError:
            raise OSError(
                errno.EINVAL, f"cannot connect to {host}:{port}: {host!r} is no host name"
            ) from None
        except OSError as error:
            raise _explained(error, f"cannot connect to {host}:{port}: {_reason(error)}") from None


class _Refused(asyncio.Protocol):
    """A connection that there is no room for: it is closed before it says anything."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


def _lowest_free(listening: int) -> int:
    """Return the descriptor that a file would get now; the accepted socket has its own already."""
    try:
        probe = os.dup(listening)
    except OSError:  # none is left at all
        return UNLIMITED
    os.close(probe)
    return probe


async def _bound_socket(host: str, port: int) -> socket.socket:
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, proto, _, address = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it on Linux; both event loops set it once more on their own.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


def _listen_advice(error: OSError, host: str, port: int) -> str:
    where = f"{host}:{port}"
    if isinstance(error, socket.gaierror):
        return f"cannot listen on {where}: {host!r} is not an address or host name that resolves here"
    if error.errno == errno.EADDRINUSE:
        return (
            f"cannot listen on {where}: another program already listens there; "
            f"stop it or choose another port (listenPort)"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            f"cannot listen on {where}: {host} is not an address of this machine; "
            f"set bindAddress to one that is, or to 127.0.0.1"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"cannot listen on {where}: this user may not; choose a port above 1023"
    return f"cannot listen on {where}: {_reason(error)}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _explained(error: OSError, text: str) -> OSError:
    """Return the same kind of error (callers look at errno and class) with a text for people."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return OSError(errno.EHOSTUNREACH, text)  # a resolver's numbers are not errno values
    return OSError(error.errno, text)
