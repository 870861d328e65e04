"""Pieces of code on the pages of the documentation, for tests that run them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:9876"
"""Where the name server is on every page; tests put that of their own broker there."""

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A piece of a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path, *languages: str) -> list[Block]:
    """Return the blocks of a page in some languages, in their order."""
    text = page.read_text()
    found = [
        Block(page.name, text[: match.start()].count("\n") + 2, match[1], match[2])
        for match in FENCE.finditer(text)
    ]
    return [block for block in found if block.language in languages]
