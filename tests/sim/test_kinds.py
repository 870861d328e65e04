"""Kinds of messages under crashes and set clocks: fixed seeds in both flush modes, replay, and the oracle
itself: each of its promises is broken once, so that it is known to notice."""

from __future__ import annotations

import pytest

from roquet.sim.__main__ import main
from roquet.sim.attempts import Wrong
from roquet.sim.kinds import run_kinds_seed
from roquet.sim.kinds_checkers import DEAD, HARD, MIXED, RETRY, Diary, Intent, Seen, Wait, Walls
from roquet.sim.kinds_stand import plan_of
from roquet.store.settings import FlushMode

FIXED = (101, 102, 103, 104, 105)
# A timed message at the log's very beginning, lost when another was handed back before a crash; the timer's
# files outlived the log in a power cut, and the first new message was taken for one that they knew; a kill
# left the timer's files unsynced, the next life vouched for them, and a power cut took them.
FOUND = (6, 2031, 100)
LEVELS_MS = (1_000, 2_000, 3_000, 4_000, 5_000)


@pytest.mark.parametrize("seed", [*FIXED, *FOUND])
def test_every_kind_keeps_its_promise(seed: int) -> None:
    outcome = run_kinds_seed(seed)
    assert not outcome.reason, f"seed {seed}: {outcome.reason}\n" + "\n".join(outcome.tail[-20:])
    assert outcome.messages


def test_both_flush_modes_and_all_troubles_are_among_the_seeds() -> None:
    plans = [plan_of(seed) for seed in (*FIXED, *FOUND)]
    assert {plan.flush_mode for plan in plans} == {FlushMode.SYNC, FlushMode.ASYNC}
    assert {kind for plan in plans for kind in plan.trouble} == {"kill", "power", "stop", "clock", "cut"}


def test_the_command_replays_a_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kinds", "104"]) == 0
    assert run_kinds_seed(104).trace_hash in capsys.readouterr().out


def diary(*jumps: tuple[float, int], is_sync: bool = True) -> Diary:
    walls = Walls()
    for at, delta_ms in jumps:
        walls.jumped(at, delta_ms)
    return Diary(walls, LEVELS_MS, 2, is_sync=is_sync)


def first(number: int = 0, queue_offset: int = 0, topic: str = MIXED) -> Seen:
    return Seen(topic, 0, queue_offset, 100 * queue_offset, 0, 0, f"letter {number} ".encode())


@pytest.mark.parametrize("wait", [Wait(level=2), Wait(delay_ms=2_000), Wait(deliver_ms=1_700_000_002_000)])
def test_what_comes_early_is_noticed(wait: Wait) -> None:
    for is_late, jumps in ((True, ()), (False, ()), (True, ((0.5, 1_500),))):
        book = diary(*jumps)
        book.stored(book.begin(MIXED, 0, wait, Intent.DIRECT, 0.0), 0.01)
        if is_late or jumps:
            book.seen(first(), 2.5 if not jumps else 0.8)
        else:
            with pytest.raises(Wrong):
                book.seen(first(), 1.9)


def test_a_level_may_go_by_any_clock_when_it_was_set_back_and_a_moment_may_not() -> None:
    book = diary((0.5, -60_000))
    for wait in (Wait(level=2), Wait(deliver_ms=1_700_000_002_000)):
        book.stored(book.begin(MIXED, 0, wait, Intent.DIRECT, 0.0), 0.01)
    book.seen(first(0), 2.5)
    with pytest.raises(Wrong):
        book.seen(first(1), 2.5)


def test_a_half_is_not_seen_before_its_commit_and_never_after_a_rollback() -> None:
    book = diary()
    committed = book.begin(MIXED, 0, Wait(), Intent.COMMIT, 0.0)
    book.begin(MIXED, 0, Wait(), Intent.ROLLBACK, 0.0)
    with pytest.raises(Wrong):
        book.seen(first(0), 1.0)
    book.deciding(committed, 2.0)
    book.seen(first(0), 2.1)
    with pytest.raises(Wrong):
        book.seen(first(1), 9.0)


def test_what_is_lost_doubled_or_out_of_order_is_noticed() -> None:
    book = diary()
    for number in range(2):
        book.stored(book.begin(MIXED, 0, Wait(), Intent.DIRECT, number), number + 0.5)
    book.audit([first(0, 0), first(1, 1)], 5.0)
    assert len(book.missing([first(1, 0)])) == 1
    with pytest.raises(Wrong):
        book.audit([first(0, 0), first(1, 1), first(0, 2)], 5.0)
    with pytest.raises(Wrong):
        book.audit([first(1, 0), first(0, 1)], 5.0)
    with pytest.raises(Wrong):
        book.seen(first(7), 5.0)


def test_retries_count_up_wait_longer_and_end_with_the_dead() -> None:
    book = diary()
    for _ in range(2):  # the first of them goes to the dead letters at once
        book.stored(book.begin(HARD, 0, Wait(), Intent.DIRECT, 0.0), 0.1)
    seen = first(1, topic=HARD)
    book.seen(seen, 0.2)
    with pytest.raises(Wrong):
        book.seen(seen._replace(topic=RETRY, times=1), 9.0)
    book.handed_back(book.handing_back(seen, 1.0), 1.1)
    assert any("try 1" in lost for lost in book.missing([seen]))
    with pytest.raises(Wrong):
        book.seen(seen._replace(topic=RETRY, times=1), 3.9)
    book.seen(seen._replace(topic=RETRY, times=1), 4.2)
    with pytest.raises(Wrong):
        book.seen(seen._replace(topic=DEAD, times=1), 4.2)
    again = seen._replace(topic=RETRY, times=1)
    with pytest.raises(Wrong):
        book.audit([seen, again, again._replace(queue_offset=1)], 9.0)


def test_a_power_cut_takes_what_was_not_waited_for() -> None:
    for is_sync in (True, False):
        book = diary(is_sync=is_sync)
        for at in (0.0, 20.0):
            book.stored(book.begin(MIXED, 0, Wait(), Intent.DIRECT, at), at)
        book.died(25.0)
        assert len(book.missing([])) == (2 if is_sync else 1)
