"""For tests of programs that use Roquet: a real broker inside the test, and a clock that the test moves.

    async with roquet.testing.broker() as mq: ...      in an async test, in memory
    def test_it(roquet_broker): ...                    a pytest fixture that comes with the package

Nothing of this is needed to run Roquet, and nothing else imports it. The parts are imported when they are
first asked for: pytest loads this package in every run, for the fixture's sake.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roquet.testing.clock import ManualClock
    from roquet.testing.local import LocalBroker, broker
    from roquet.testing.net import MemoryNet
    from roquet.testing.threaded import ThreadedBroker

__all__ = ["LocalBroker", "ManualClock", "MemoryNet", "ThreadedBroker", "broker"]

_HOMES: Final = {
    "LocalBroker": "local",
    "ManualClock": "clock",
    "MemoryNet": "net",
    "ThreadedBroker": "threaded",
    "broker": "local",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
