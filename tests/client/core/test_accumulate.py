"""Which messages leave together, and when."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.client.core.accumulate import Accumulator, Batching


def test_what_comes_in_one_turn_leaves_together() -> None:
    waiting: Accumulator[int] = Accumulator(Batching())
    assert [waiting.add("t", number, 10) for number in range(3)] == [[], [], []]
    assert waiting.ready("t") == [0, 1, 2]
    assert waiting.ready("t") == []


def test_while_enough_is_out_the_rest_waits_for_it() -> None:
    waiting: Accumulator[int] = Accumulator(Batching(parallel=1))
    waiting.add("t", 1, 10)
    assert waiting.ready("t") == [1]
    waiting.add("t", 2, 10)
    waiting.add("t", 3, 10)
    assert waiting.ready("t") == []
    waiting.returned("t")
    assert waiting.ready("t") == [2, 3]


def test_a_full_run_leaves_however_much_is_out() -> None:
    waiting: Accumulator[int] = Accumulator(Batching(bytes_max=100, messages_max=3, parallel=1))
    waiting.add("t", 0, 10)
    waiting.ready("t")
    assert waiting.add("t", 1, 60) == []
    assert waiting.add("t", 2, 60) == [1]
    assert waiting.add("t", 3, 10) == []
    assert waiting.add("t", 4, 10) == [2, 3, 4]


def test_topics_do_not_wait_for_each_other() -> None:
    waiting: Accumulator[int] = Accumulator(Batching(parallel=1))
    waiting.add("t", 1, 10)
    waiting.ready("t")
    waiting.add("u", 2, 10)
    assert waiting.ready("u") == [2]


@given(st.lists(st.one_of(st.integers(1, 150), st.just("ready"), st.just("back")), max_size=60))
@settings(max_examples=150)
def test_every_message_leaves_once_and_in_order(steps: list[int | str]) -> None:
    rules = Batching(bytes_max=200, messages_max=5, parallel=2)
    waiting: Accumulator[tuple[int, int]] = Accumulator(rules)
    runs: list[list[tuple[int, int]]] = []
    put = out = 0
    for step in steps:
        run = []
        if isinstance(step, int):
            run = waiting.add("t", (put, step), step)
            put += 1
        elif step == "ready":
            run = waiting.ready("t")
            assert not run or out < rules.parallel
        elif out:
            waiting.returned("t")
            out -= 1
        if run:
            runs.append(run)
            out += 1
            assert len(run) <= rules.messages_max
            assert len(run) == 1 or sum(size for _, size in run) <= rules.bytes_max
    while out:
        waiting.returned("t")
        out -= 1
    if run := waiting.ready("t"):
        runs.append(run)
    assert [number for run in runs for number, _ in run] == list(range(put))
