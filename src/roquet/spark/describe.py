"""The options as tables for people: `python -m roquet.spark.describe` writes docs/SPARK.md anew.

The page is prose with tables of options between marks; only the tables come from here. Run it in the
project's folder.
`--check` fails when the page is older than the options.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from roquet.spark import files, sink, source_options
from roquet.spark.options import Table

PAGE: Final = "SPARK.md"
TABLES: Final[Mapping[str, Table]] = {
    "reading roquet": source_options.OPTIONS,
    "writing roquet": sink.SINK_OPTIONS,
    "reading roquet-store": files.OPTIONS,
}


def with_tables(page: str) -> str:
    """Return a page with its tables made anew; raises ValueError when a mark is missing."""
    for use, table in TABLES.items():
        begin, end = f"<!-- options for {use} -->\n", "<!-- end of options -->"
        before, mark, rest = page.partition(begin)
        _, close, after = rest.partition(end)
        if not mark or not close:
            raise ValueError(f"{PAGE} lacks the marks {begin.strip()} and {end}")
        page = before + mark + "\n" + table.markdown() + "\n" + close + after
    return page


def main(words: list[str]) -> int:
    """Write the page, or with `--check` compare it."""
    path = Path("docs") / PAGE
    page = path.read_text()
    new = with_tables(page)
    if "--check" in words:
        return int(new != page)
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
