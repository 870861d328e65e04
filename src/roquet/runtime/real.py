"""The real world as the four ports: what a program or a client gets unless a test gives it another."""

from __future__ import annotations

from random import Random

from roquet.ports import Ports
from roquet.runtime.clock import RealClock
from roquet.runtime.disk import OsDisk
from roquet.runtime.net import RealNet


def real_ports() -> Ports:
    """Return fresh ports on this machine's clock, randomness, files and network."""
    return Ports(RealClock(), Random(), OsDisk(), RealNet())
