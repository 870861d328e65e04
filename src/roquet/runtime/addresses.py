"""Where a broker listens, and which address it tells others to use.

    bindAddress   brokerIP1   listens on              tells clients
    –             –           127.0.0.1               127.0.0.1
    –             X           X and 127.0.0.1         X
    loopback      any         bindAddress             bindAddress
    0.0.0.0, ::   – / X       everywhere              the address towards the name server / X
    Y             – / X       Y                       Y / X

Nothing is open to other hosts unless somebody asked for it. The plan is a pure function of the settings;
only `route_ip` asks the system.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import NamedTuple

from roquet.runtime.settings import BrokerSettings, Endpoint

LOOPBACK = "127.0.0.1"


class Addresses(NamedTuple):
    """Where to listen (main port, fast port = main − 2), and what to register."""

    bind: tuple[str, ...]
    advertise: str
    ha_advertise: str
    notes: tuple[str, ...]


def plan_addresses(settings: BrokerSettings, namesrv_route_ip: str) -> Addresses:
    """Decide on addresses; `namesrv_route_ip` is what `route_ip` gave, empty without a name server."""
    bind, notes = _bind(settings)
    advertise, more_notes = _advertise(settings, bind[0], namesrv_route_ip)
    return Addresses(bind, advertise, settings.broker_ip2 or advertise, (*notes, *more_notes))


def _bind(settings: BrokerSettings) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if settings.bind_address:
        return (settings.bind_address,), ()
    ip = settings.broker_ip1
    if ip in ("", LOOPBACK, "localhost"):
        return (LOOPBACK,), ()
    note = (
        f"brokerIP1={ip} is set and bindAddress is not: listening on {ip} and {LOOPBACK}; "
        f"set bindAddress=0.0.0.0 to listen on every address"
    )
    return (ip, LOOPBACK), (note,)


def _advertise(settings: BrokerSettings, bound: str, namesrv_route_ip: str) -> tuple[str, tuple[str, ...]]:
    ip = settings.broker_ip1
    if is_loopback(bound):
        if ip and not is_loopback(ip):
            text = f"brokerIP1={ip} is not told to clients: bindAddress={bound} is reachable from here only"
            return bound, (text,)
        return bound, ()
    if ip:
        return ip, ()
    if not _is_any(bound):
        return bound, ()
    if namesrv_route_ip:
        return namesrv_route_ip, ()
    text = f"clients are told {LOOPBACK}: without a name server there is no route to find a better address by"
    return LOOPBACK, (f"{text}; set brokerIP1",)


def route_ip(target: Endpoint) -> str:
    """Return this machine's address on the way to `target`; raises OSError when there is no way.

    Connecting a datagram socket chooses the route and sends nothing.
    """
    family, kind, proto, _, address = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, proto) as probe:
        probe.connect(address)
        ip: str = probe.getsockname()[0]
        return ip


def is_loopback(ip: str) -> bool:
    """Return whether an address (of a peer, or to bind to) means this machine: 127.x, ::1, ::ffff:127.x."""
    if ip == "localhost":
        return True
    try:
        address = ipaddress.ip_address(ip.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _is_any(ip: str) -> bool:
    try:
        return ipaddress.ip_address(ip).is_unspecified
    except ValueError:
        return False
