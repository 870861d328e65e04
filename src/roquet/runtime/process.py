"""This process, as clients must know it: its number, its environment, and whether it has been forked.

A fork copies connections that two processes must not share. Each one is counted here, so that whoever
holds connections compares a number instead of asking the system at every call.
"""

from __future__ import annotations

import os

_forks = 0


def forks() -> int:
    """Return how many forks lie between the first process and this one."""
    return _forks


def pid() -> int:
    """Return the number of this process."""
    return os.getpid()


def home() -> str:
    """Return the folder of whoever runs this process."""
    return os.path.expanduser("~")


def variable(*names: str) -> str:
    """Return the first of these environment variables that is set and not blank, or an empty text."""
    for name in names:
        text = os.environ.get(name, "").strip()
        if text:
            return text
    return ""


def _count() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count)
