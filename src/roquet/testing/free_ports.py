"""Ports of this machine that nobody uses, for servers inside tests.

A broker takes two: its main port and the one two below (and tells slaves of the one above). They are drawn
from below the range that systems give to outgoing connections, so that none of those takes one between
the moment we look and the moment the server binds.
"""

from __future__ import annotations

import random
import socket
from typing import Final

LOWEST: Final = 10_000
HIGHEST: Final = 30_000
ATTEMPTS: Final = 500
BROKER_STEPS: Final = (-2, 0, 1)


def free_port(steps: tuple[int, ...] = (0,)) -> int:
    """Return a port P such that P + step is free on loopback for each step."""
    draw = random.Random()
    for _ in range(ATTEMPTS):
        port = draw.randrange(LOWEST, HIGHEST)
        if all(_is_free(port + step) for step in steps):
            return port
    raise OSError(f"no free port between {LOWEST} and {HIGHEST} after {ATTEMPTS} attempts")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
