"""Every fuzz target for a few seconds, and every input that once broke one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from roquet.store.format.record import Stop, scan
from tests.fuzz import frame, record
from tests.fuzz.mutate import Mend, cases

SEED = 20_260
COUNT = 60_000
SEEDS = Path(__file__).parents[1] / "seeds"


class Target(NamedTuple):
    """What a fuzz target offers."""

    corpus: Callable[[], list[bytes]]
    mend: Mend
    check: Callable[[bytes], None]


TARGETS = {
    "frame": Target(frame.corpus, frame.mend, frame.check),
    "record": Target(record.corpus, record.mend, record.check),
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_itself_is_sound(name: str) -> None:
    target = TARGETS[name]
    corpus = target.corpus()
    assert len(corpus) > 50
    for data in corpus:
        target.check(data)


@pytest.mark.parametrize("name", TARGETS)
def test_mutations_break_no_promise(name: str) -> None:
    target = TARGETS[name]
    for number, data in enumerate(cases(target.corpus(), SEED, COUNT, target.mend)):
        try:
            target.check(data)
        except Exception as error:
            raise AssertionError(
                f"case {number} of seed {SEED} breaks {name}; keep it as tests/seeds/{name}-<what>.hex: "
                f"{data.hex()}"
            ) from error


@pytest.mark.parametrize("path", sorted(SEEDS.glob("*.hex")), ids=lambda path: path.stem)
def test_what_once_failed_stays_mended(path: Path) -> None:
    name = path.stem.partition("-")[0]
    TARGETS[name].check(bytes.fromhex(path.read_text()))


def test_the_fuzzer_reaches_both_outcomes() -> None:
    outcomes = {type(frame._outcome(data)) for data in cases(frame.corpus(), SEED, 500, frame.mend)}
    assert outcomes == {tuple, str}
    stops = {
        scan(data, record.LOG_OFFSET, record.LOG_OFFSET + len(data), True, (), 9).stop
        for data in cases(record.corpus(), SEED, 500, record.mend)
    }
    assert stops == set(Stop)
