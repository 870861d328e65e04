"""What `roquet.sync` stands on: the face of an asynchronous object for threads that may wait.

    caller's thread ── method ──▶ the shared background loop ──▶ the asynchronous object

`describe_sync` writes the classes of `roquet.sync` from those of the client; each is a `Blocking` with typed
methods. Any thread may call them, also at the same time. In a child of `fork` they raise Forked, and new
ones work.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from roquet.client.errors import Forked, Misuse
from roquet.runtime.background import Background, LoopLost, WrongThread, shared

Inner = TypeVar("Inner")
Result = TypeVar("Result")
Item = TypeVar("Item")


class Blocking(Generic[Inner]):
    """The synchronous face of one object, which lives on a background loop."""

    def __init__(self, make: Callable[[], Inner], background: Background | None = None) -> None:
        self._background = background or shared()
        self._inner = self._call(make)

    @classmethod
    def around(cls, inner: Inner, background: Background) -> Self:
        """Return the face of an object that is there already."""
        face = cls.__new__(cls)
        face._background = background
        face._inner = inner
        return face

    def __repr__(self) -> str:
        return f"<sync {self._inner!r}>"

    # --- what the generated methods do

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine of the object and wait for its end."""
        return _told(lambda: self._background.run(work))

    def _call(self, act: Callable[[], Result]) -> Result:
        """Run a plain function on the loop: what is not a coroutine is not for other threads either."""
        return self._run(_called(act))

    def _start(self, begin: Callable[[], Awaitable[Result]]) -> concurrent.futures.Future[Result]:
        """Begin something on the loop and return its future at once."""
        return _told(lambda: self._background.start(_awaited(begin)))

    def _iterate(self, begin: Callable[[], AsyncIterable[Item]]) -> Iterator[Item]:
        """Go through what the object yields, one item at a time."""
        items = self._call(lambda: aiter(begin()))
        try:
            while True:
                try:
                    item = self._run(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None and self._background.is_alive:
                self._run(close())


class BlockingBlock(Blocking[Inner]):
    """One that is used with `with`."""

    def __enter__(self) -> Self:
        self._run(_entered(self._inner))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._background.is_alive:  # in a child of fork: what was opened is the parent's
            return
        self._run(_left(self._inner, kind, error, trace))


def in_thread(
    function: Callable[[Any], Any] | None, face: Callable[[Any], object] | None
) -> Callable[[Any], Awaitable[Any]] | None:
    """Return a function that runs a user's one in a thread, where it may wait; `face` is put before it."""
    if function is None:
        return None
    wanted = function

    async def run(given: Any) -> Any:
        seen = given if face is None else face(given)
        return await asyncio.get_running_loop().run_in_executor(None, wanted, seen)

    return run


async def _called(act: Callable[[], Result]) -> Result:
    return act()


async def _awaited(begin: Callable[[], Awaitable[Result]]) -> Result:
    return await begin()


async def _next(items: AsyncIterator[Item]) -> Item:
    return await anext(items)


async def _entered(block: object) -> None:
    assert isinstance(block, AbstractAsyncContextManager)
    await block.__aenter__()


async def _left(
    block: object,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    assert isinstance(block, AbstractAsyncContextManager)
    await block.__aexit__(kind, error, trace)


def _told(act: Callable[[], Result]) -> Result:
    """Run, and put the trouble of a loop into the words of the client."""
    try:
        return act()
    except LoopLost as lost:
        raise Forked(str(lost)) from None
    except WrongThread as wrong:
        raise Misuse(str(wrong), hint="inside of callbacks of the asynchronous client use `await`") from None
