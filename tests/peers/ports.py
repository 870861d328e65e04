"""Free TCP ports for servers that a test starts.

A broker on port P also listens on P-2 (the VIP channel) and P+1 (replication), so its ports come as a set.
They are taken below the kernel's ephemeral range: a port there may be given to any outgoing connection
between the moment we look and the moment the server binds.
"""

import os
import random
import socket

LOWEST = 11_000
HIGHEST = 29_000
ATTEMPTS = 500

_draw = random.Random(os.getpid() * 7919 + os.getppid())
_given: set[int] = set()


def free_port() -> int:
    """Return a port that nobody listens on and that this process has not handed out yet."""
    return _free_set((0,))


def free_broker_port() -> int:
    """Return a port P such that P-2, P and P+1 are all free."""
    return _free_set((-2, 0, 1))


def _free_set(steps: tuple[int, ...]) -> int:
    for _ in range(ATTEMPTS):
        port = _draw.randrange(LOWEST, HIGHEST)
        wanted = {port + step for step in steps}
        if not wanted & _given and all(_is_free(each) for each in wanted):
            _given.update(wanted)
            return port
    raise RuntimeError(f"no free port set between {LOWEST} and {HIGHEST} after {ATTEMPTS} attempts")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def accepts(address: str) -> bool:
    """Say whether somebody accepts connections on `host:port`."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
