"""The examples of the documentation run: every Python block of the pages, and every file of `examples`.

A block runs on an event loop when it awaits at its top level, as in `python -m asyncio`. One that never ends
by itself (it waits for more messages) is ended once it has printed and then been silent. All talk to a broker
of this test's own: the address on the page is the only thing that is changed.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import roquet
from roquet.testing import ThreadedBroker
from tests.docs.pages import ADDRESS, ROOT, Block, blocks_of

PAGES = (ROOT / "README.md", ROOT / "docs" / "SDK.md")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LIMIT_S = 60.0
SILENCE_S = 0.5


def blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page, "python")]


class Told(io.StringIO):
    """What a block printed, and when it did so last."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 0.0

    def write(self, text: str) -> int:
        self.last = time.monotonic()
        return super().write(text)


async def run_until_silent(block: Callable[[], Any], told: Told) -> None:
    """Await a block; one that only waits for more is ended."""
    running = asyncio.ensure_future(block())
    deadline = time.monotonic() + LIMIT_S
    while not running.done():
        assert time.monotonic() < deadline, f"neither ended nor printed: {told.getvalue()!r}"
        if told.last and time.monotonic() - told.last > SILENCE_S:
            running.cancel()
        await asyncio.wait([running], timeout=0.05)
    with contextlib.suppress(asyncio.CancelledError):
        await running


def run_as_tests(text: str, folder: Path) -> None:
    """Run a block of tests with pytest, as its reader does."""
    (folder / "test_page.py").write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "--rootdir", str(folder), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, cwd=folder)
    assert f"{text.count('def test_')} passed" in done.stdout, done.stdout


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.place)
def test_a_block_of_the_documentation_runs(
    block: Block, roquet_broker: ThreadedBroker, tmp_path: Path
) -> None:
    if "def test_" in block.text:
        run_as_tests(block.text, tmp_path)
        return
    prepare(roquet_broker, block.text)
    text = block.text.replace(ADDRESS, roquet_broker.namesrv)
    code = compile(text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, object] = {"__name__": "example"}
    told = Told()
    with contextlib.redirect_stdout(told):
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(run_until_silent(lambda: eval(code, names), told))
        else:
            exec(code, names)


def prepare(broker: ThreadedBroker, text: str) -> None:
    """Put in what a block finds: an order, and a dead letter where it is about those."""

    async def fill() -> None:
        async with roquet.Producer(broker.namesrv) as producer:
            await producer.send("orders", b"an order", tag="created", keys=["1"])
            await producer.send("seed", b"nobody wants it")
        if "dead_letters" in text:
            async with roquet.Consumer(
                broker.namesrv, group="giving-up", subscribe="seed", start="earliest"
            ) as consumer:
                await (await anext(aiter(consumer))).dead_letter()

    asyncio.run(fill())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(path: Path, roquet_broker: ThreadedBroker) -> None:
    done = subprocess.run(
        [sys.executable, str(path), roquet_broker.namesrv], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, "an example shows something"


def test_the_pages_have_blocks() -> None:
    assert {block.page for block in blocks()} == {page.name for page in PAGES}
    assert EXAMPLES
