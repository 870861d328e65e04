"""SIGTERM, for programs that want to end in good order: everybody who asked is told.

The event loop calls; outside of the main thread, or on a loop without signals, nobody is told and
`on_sigterm` says so.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

_listeners: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}


def on_sigterm(callback: Callable[[], None]) -> bool:
    """Call back at SIGTERM, in the running loop; False when this loop gets no signals."""
    loop = asyncio.get_running_loop()
    listeners = _listeners.setdefault(loop, [])
    if not listeners:
        try:
            loop.add_signal_handler(signal.SIGTERM, _tell, loop)
        except (NotImplementedError, RuntimeError, ValueError):
            del _listeners[loop]
            return False
    listeners.append(callback)
    return True


def forget_sigterm(callback: Callable[[], None]) -> None:
    """Take a callback out; after the last one the signal does again what it did before."""
    loop = asyncio.get_running_loop()
    listeners = _listeners.get(loop, [])
    if callback in listeners:
        listeners.remove(callback)
        if not listeners:
            del _listeners[loop]
            loop.remove_signal_handler(signal.SIGTERM)


def _tell(loop: asyncio.AbstractEventLoop) -> None:
    for callback in list(_listeners.get(loop, [])):
        callback()
