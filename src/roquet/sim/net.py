"""The simulated network: hosts, listeners, connections, and the faults that tests inject.

`Network` is the whole of it, `SimNet` one host's door into it (the Net port). Hosts are known by name
("broker-a") and get loopback addresses 127.0.0.2, 127.0.0.3 …, or the address that `add_host` is given;
127.0.0.1 and "localhost" always mean the host itself, as on a real machine.

    partition, clog   nothing passes, both sides stay silent and wait; what was sent arrives later
    cut               both sides get a reset
    power_off         the host's ends vanish without a word (half-open peers) until it is on again
    kill              the process dies, its operating system resets what it had open
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import ipaddress
import itertools
from collections.abc import Callable
from typing import NamedTuple

from roquet.ports import Listener, Rng
from roquet.sim.stream import Link, SimTransport
from roquet.sim.trace import Trace

LOOPBACK_IP = "127.0.0.1"
ANY_IP = ("0.0.0.0", "::")
NEAR_DELAY_S = (0.000_02, 0.000_2)  # between programs of one host
FAR_DELAY_S = (0.000_2, 0.005)  # between hosts
KNOCK_AGAIN_S = 1.0  # how long TCP waits before it repeats an unanswered SYN
FIRST_CLIENT_PORT = 40_001
FIRST_FREE_PORT = 50_001


class Place(NamedTuple):
    """Where a listener waits: a host, the address it bound to there, and the port."""

    host: str
    ip: str
    port: int


class SimListener:
    """A listening port; see `roquet.ports.Listener`."""

    __slots__ = ("_network", "factory", "owner", "place")

    def __init__(self, network: Network, place: Place, factory: Callable[[], asyncio.Protocol]) -> None:
        self._network = network
        self.place = place
        self.factory = factory
        self.owner = contextvars.copy_context()

    @property
    def address(self) -> tuple[str, int]:
        return self.place.ip, self.place.port

    def close(self) -> None:
        self._network.forget(self)


class Network:
    """All hosts and the links between them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Rng, trace: Trace) -> None:
        self.delay_s = FAR_DELAY_S
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self._ips: dict[str, str] = {}  # host → address
        self._off: dict[str, bool] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._shut: dict[tuple[str, str], bool] = {}  # partitioned or clogged, by direction
        self._listeners: dict[Place, SimListener] = {}
        self._numbers = itertools.count(1)
        self._client_ports = itertools.count(FIRST_CLIENT_PORT)
        self._free_ports = itertools.count(FIRST_FREE_PORT)

    # --- hosts

    def add_host(self, name: str, ip: str = "") -> str:
        """Make a host known and return its address; without `ip` the next of 127.0.0.2, … is its own."""
        if name not in self._ips:
            self._ips[name] = ip or (name if _is_ip(name) else f"127.0.0.{len(self._ips) + 2}")
            self._off[name] = False
        return self._ips[name]

    def door(self, host: str) -> SimNet:
        """Return the Net port of a host."""
        self.add_host(host)
        return SimNet(self, host)

    def find(self, asking: str, name: str) -> tuple[str, str]:
        """Return (host, address) that `name` means to the host that asks; raises OSError."""
        if name in ("localhost", LOOPBACK_IP, "::1"):
            return asking, LOOPBACK_IP
        if name in self._ips:
            return name, self._ips[name]
        for host, ip in self._ips.items():
            if ip == name:
                return host, ip
        raise OSError(errno.EHOSTUNREACH, f"no host {name!r} in this network")

    # --- faults

    def set_delay(self, source: str, target: str, low_s: float, high_s: float) -> None:
        """Set how long data takes from one host to the other."""
        self._link(source, target).delay_s = (low_s, high_s)

    def partition(self, one: str, other: str) -> None:
        """Let nothing pass between two hosts, in either direction."""
        self.partition_one_way(one, other)
        self.partition_one_way(other, one)

    def partition_one_way(self, source: str, target: str) -> None:
        """Let nothing pass from `source` to `target`."""
        self._set_shut(source, target, shut=True)

    def isolate(self, host: str) -> None:
        """Separate a host from all others."""
        for other in self._ips:
            if other != host:
                self.partition(host, other)

    def clog(self, source: str, target: str, seconds: float) -> None:
        """Hold everything from `source` to `target` for a while."""
        self.partition_one_way(source, target)
        self._loop.call_later(seconds, self._open, source, target, context=contextvars.Context())

    def heal(self, one: str, other: str) -> None:
        """End what separates two hosts; what was held flows on."""
        self._open(one, other)
        self._open(other, one)

    def heal_all(self) -> None:
        """End every partition and clog."""
        for source, target in list(self._shut):
            self._open(source, target)

    def cut(self, one: str, other: str) -> None:
        """Reset every connection between two hosts, at both ends."""
        self._trace.note("cut", one, other)
        for link in (self._link(one, other), self._link(other, one)):
            for end in list(link.ends.values()):
                end.reset("connection cut")

    def power_off(self, host: str) -> None:
        """Take a host away without a word: its ends and listeners vanish, its peers notice nothing."""
        self._trace.note("power_off", host)
        self._off[host] = True
        for end in self._ends_of(host):
            end.vanish()
        self._drop_listeners(host)
        self._refresh()

    def power_on(self, host: str) -> None:
        """Bring a host back, with nothing open; peers that still write to it are reset."""
        self._trace.note("power_on", host)
        self._off[host] = False
        self._refresh()

    def kill(self, host: str) -> None:
        """End the host's program: its operating system closes what it had open."""
        self._trace.note("kill", host)
        for end in self._ends_of(host):
            end.orphan()
        self._drop_listeners(host)

    # --- for SimNet and SimListener

    def forget(self, listener: SimListener) -> None:
        """Close a listener."""
        self._listeners.pop(listener.place, None)

    def listen(self, host: str, name: str, port: int, factory: Callable[[], asyncio.Protocol]) -> SimListener:
        """Open a listener; raises OSError as `bind` would."""
        ip = name if name in ANY_IP else self.find(host, name)[1]
        if ip not in (*ANY_IP, LOOPBACK_IP, self._ips[host]):
            raise OSError(errno.EADDRNOTAVAIL, f"{name} is not an address of {host}")
        port = port or next(self._free_ports)
        for taken in self._listeners:
            same_ip = taken.ip == ip or ip in ANY_IP or taken.ip in ANY_IP
            if taken.host == host and taken.port == port and same_ip:
                raise OSError(errno.EADDRINUSE, f"{host} already listens on {taken.ip}:{port}")
        listener = SimListener(self, Place(host, ip, port), factory)
        self._listeners[listener.place] = listener
        return listener

    def round_trip_s(self, one: str, other: str) -> float:
        """Return how long a handshake takes."""
        return self._link(one, other).pick_delay_s() + self._link(other, one).pick_delay_s()

    def is_open(self, one: str, other: str) -> bool:
        """Return whether packets pass in both directions."""
        return not self._link(one, other).blocked and not self._link(other, one).blocked

    def open_stream(
        self, source: str, target: str, ip: str, port: int, protocol: asyncio.Protocol
    ) -> SimTransport:
        """Join a new protocol to the listener at the address; raises ConnectionRefusedError."""
        places = (Place(target, at, port) for at in (ip, *ANY_IP))
        listener = next((self._listeners[place] for place in places if place in self._listeners), None)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nothing listens on {ip}:{port} of {target}")
        number = next(self._numbers)
        here = (ip if source == target else self._ips[source], next(self._client_ports))
        there = (ip, port)
        out, back = self._link(source, target), self._link(target, source)
        owner, server = contextvars.copy_context(), listener.owner.copy()
        served = server.run(listener.factory)
        near = SimTransport(self._loop, self._trace, number, out, protocol, owner, (here, there))
        far = SimTransport(self._loop, self._trace, -number, back, served, server, (there, here))
        near.join(far)
        far.join(near)
        self._trace.note("connect", number, source, target, port)
        server.run(served.connection_made, far)
        protocol.connection_made(near)
        return near

    # --- inside

    def _link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            delay_s = NEAR_DELAY_S if source == target else self.delay_s
            link = self._links[source, target] = Link(f"{source}>{target}", self._rng, delay_s)
            link.blocked = self._is_blocked(source, target)
        return link

    def _is_blocked(self, source: str, target: str) -> bool:
        return (source, target) in self._shut or self._off[source] or self._off[target]

    def _set_shut(self, source: str, target: str, *, shut: bool) -> None:
        self._trace.note("shut" if shut else "open", source, target)
        if shut:
            self._shut[source, target] = True
        else:
            self._shut.pop((source, target), None)
        self._refresh()

    def _open(self, source: str, target: str) -> None:
        self._set_shut(source, target, shut=False)

    def _refresh(self) -> None:
        for (source, target), link in self._links.items():
            was_blocked, link.blocked = link.blocked, self._is_blocked(source, target)
            if was_blocked and not link.blocked:
                self._loop.call_soon(link.resume)

    def _ends_of(self, host: str) -> list[SimTransport]:
        return [
            end for (source, _), link in self._links.items() if source == host for end in link.ends.values()
        ]

    def _drop_listeners(self, host: str) -> None:
        for listener in [it for it in self._listeners.values() if it.place.host == host]:
            self.forget(listener)


class SimNet:
    """The network as one host sees it; see `roquet.ports.Net`."""

    __slots__ = ("_host", "_network")

    def __init__(self, network: Network, host: str) -> None:
        self._network = network
        self._host = host

    async def listen(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Listener:
        return self._network.listen(self._host, host, port, factory)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_s: float
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        target, ip = self._network.find(self._host, host)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(self._network.round_trip_s(self._host, target))
                while not self._network.is_open(self._host, target):
                    await asyncio.sleep(KNOCK_AGAIN_S)
        except TimeoutError:
            raise TimeoutError(
                errno.ETIMEDOUT, f"no answer from {host}:{port} within {timeout_s:g} s"
            ) from None
        protocol = factory()
        return self._network.open_stream(self._host, target, ip, port, protocol), protocol


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
