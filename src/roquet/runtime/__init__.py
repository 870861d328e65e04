"""The real outside world: clock, sockets, files, event loop, settings and logs.

Programs build their four ports here once, in their composition root, and hand them down. Nothing in
this package knows what a message is. The simulated counterparts live in `roquet.sim`.
"""

from __future__ import annotations

import random

from roquet.ports import Disk, Ports
from roquet.runtime.clock import RealClock
from roquet.runtime.net import RealNet


def real_ports(disk: Disk) -> Ports:
    """Return the real clock, randomness and network beside the given disk."""
    return Ports(RealClock(), random.Random(), disk, RealNet())
