"""Logs: levels, one line a record, nothing smuggled in, repeated lines held back."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from roquet.runtime.logs import BadLogLevel, OncePer, read_levels, set_up
from roquet.sim.clock import SimClock
from roquet.sim.loop import SimLoop


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("part").setLevel(logging.NOTSET)


def test_levels_of_the_environment() -> None:
    assert read_levels("") == {"": logging.INFO}
    assert read_levels("debug") == {"": logging.DEBUG}
    assert read_levels(" Warning , roquet.store = debug ") == {
        "": logging.WARNING,
        "roquet.store": logging.DEBUG,
    }
    with pytest.raises(BadLogLevel, match="'loud' is not a level; use one of debug, info, warning, error"):
        read_levels("loud")


def test_a_record_is_one_line(stream: io.StringIO) -> None:
    set_up({"ROQUET_LOG": "info,part=debug"}, stream)
    logging.getLogger("part").debug("topic %s", "evil\n2025 ERROR forged\x1b[2J")
    logging.getLogger("other").debug("not shown")
    try:
        raise ValueError("inside")
    except ValueError:
        logging.getLogger("other").exception("failed")
    first, second = stream.getvalue().splitlines()
    assert first.endswith("Z DEBUG part topic evil | 2025 ERROR forged\\x1b[2J")
    assert " ERROR other failed | Traceback" in second and second.endswith("ValueError: inside")


def test_a_repeated_line_passes_once_in_its_time_and_says_how_many_it_held_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = SimLoop()
    clock = SimClock(loop)
    logger = logging.getLogger("once")
    once = OncePer(clock, 60)

    async def main() -> None:
        for second in range(70):
            await clock.sleep_until(second)
            once.log(logger, logging.WARNING, "no space on %s", second)
        assert once.log(logger, logging.WARNING, "another line")

    with caplog.at_level(logging.INFO):
        loop.run_until_complete(main())
    loop.close()
    assert [record.getMessage() for record in caplog.records] == [
        "no space on 0",
        "no space on 60 (and 59 more like it since)",
        "another line",
    ]


def test_what_is_remembered_is_bounded() -> None:
    loop = SimLoop()
    once = OncePer(SimClock(loop), 60)

    async def main() -> None:
        for number in range(3000):
            once.log(logging.getLogger("many"), logging.DEBUG, f"line {number}")
        assert not once.log(logging.getLogger("many"), logging.DEBUG, "line 2999")
        assert once.log(logging.getLogger("many"), logging.DEBUG, "line 0")

    loop.run_until_complete(main())
    loop.close()
