"""SIGTERM reaches everybody who asked, and afterwards does what it did before."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

from roquet.runtime.signals import forget_sigterm, on_sigterm


def test_everybody_is_told_and_may_stop_listening() -> None:
    async def main() -> None:
        told: list[str] = []
        first, both = asyncio.Event(), asyncio.Event()

        def one() -> None:
            told.append("one")

        def two() -> None:
            told.append("two")
            (both if first.is_set() else first).set()

        assert on_sigterm(one)
        assert on_sigterm(two)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(first.wait(), 60)
        forget_sigterm(one)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(both.wait(), 60)
        forget_sigterm(two)
        forget_sigterm(two)  # once too often is fine
        assert told == ["one", "two", "two"]

    before = signal.getsignal(signal.SIGTERM)
    asyncio.run(main())
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_loop_outside_of_the_main_thread_gets_no_signals() -> None:
    heard: list[bool] = []

    async def main() -> None:
        heard.append(on_sigterm(lambda: None))
        forget_sigterm(lambda: None)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(60)
    assert heard == [False]
