"""The log of commits: what its records add up to, whatever order they come in, and how places are packed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.spark import manifest
from roquet.spark.manifest import (
    Begun,
    CommittedRecord,
    Prepared,
    PreparedRecord,
    Record,
    Run,
    State,
    fold_all,
)

NOTHING = State()


def batch(epoch: int, *stages: str) -> Prepared:
    return Prepared(epoch, 0, (), stages, {})


def prepared(token: str, epoch: int, *stages: str) -> PreparedRecord:
    return PreparedRecord(token, batch(epoch, *stages), 0, NOTHING)


def committed(token: str, epoch: int, *stages: str) -> CommittedRecord:
    return CommittedRecord(token, epoch, stages, 0, NOTHING)


def test_a_commit_in_order() -> None:
    log: list[Record] = [Begun("a"), prepared("a", 0, "s"), committed("a", 0, "s")]
    assert fold_all(NOTHING, log[:2]).prepared == batch(0, "s")
    assert fold_all(NOTHING, log) == State("a", 0, ("s",), None)


def test_who_has_lost_the_turn_prepares_nothing() -> None:
    log: list[Record] = [Begun("a"), Begun("b"), prepared("a", 0)]
    assert fold_all(NOTHING, log).prepared is None


def test_a_repeated_record_changes_nothing() -> None:
    log: list[Record] = [Begun("a"), prepared("a", 0, "s"), prepared("a", 0, "s"), committed("a", 0, "s")]
    assert fold_all(NOTHING, [*log, committed("a", 0, "s"), prepared("a", 0, "other")]) == fold_all(
        NOTHING, log
    )


def test_a_late_word_of_an_old_batch_hides_no_new_one() -> None:
    log: list[Record] = [Begun("z"), prepared("z", 0), Begun("s"), committed("s", 0), prepared("s", 1, "n")]
    assert fold_all(NOTHING, [*log, committed("z", 0)]).prepared == batch(1, "n")


def test_the_turn_is_kept_over_what_a_successor_finishes_first() -> None:
    log: list[Record] = [Begun("a"), prepared("a", 3), Begun("b"), committed("b", 3), prepared("b", 4)]
    assert fold_all(NOTHING, log) == State("b", 3, (), batch(4))


def test_an_abort_spares_what_a_commit_has_begun() -> None:
    state = State("t", 4, ("done",), batch(5, "begun"))
    assert manifest.spared(state, 5) == {"begun"}
    assert manifest.spared(state, 4) == {"done", "begun"}


def test_records_survive_the_wire() -> None:
    ends = {"orders": {"broker-a": {"0": 17}}}
    record = PreparedRecord("t", Prepared(7, 3, (1, 2), ("s",), ends), 12, State("t", 6, ("r",), batch(5)))
    for each in (record, Begun("t"), committed("t", 7, "s")):
        assert manifest.decode(manifest.encode(each)) == each


@pytest.mark.parametrize("body", [b"", b"{}", b'{"type":"other"}', b"[1]"])
def test_what_is_no_record_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        manifest.decode(body)


ACTS = st.lists(
    st.tuples(st.sampled_from(["begin", "prepare", "commit", "die"]), st.integers(0, 2)), max_size=30
)


@settings(max_examples=200)
@given(ACTS)
def test_reading_from_a_snapshot_equals_reading_everything(acts: list[tuple[str, int]]) -> None:
    """Three drivers in any order: each knows only what it read when it began, and snapshots add up."""
    log: list[Record] = []
    turns: dict[int, tuple[str, int, State]] = {}
    commits: list[int] = []
    for number, (act, driver) in enumerate(acts):
        if act == "begin":
            log.append(Begun(f"{driver}-{number}"))
            turns[driver] = (f"{driver}-{number}", len(log) - 1, fold_all(NOTHING, log))
        elif act == "die":
            turns.pop(driver, None)
        elif driver in turns:
            token, begun, state = turns[driver]
            left = state.prepared
            epoch = left.epoch if left else state.committed + 1
            if act == "prepare" and left is None:
                log.append(PreparedRecord(token, batch(epoch, token), begun, state))
                before, after = fold_all(NOTHING, log[:-1]), fold_all(NOTHING, log)
                is_ours = not any(isinstance(each, Begun) for each in log[begun + 1 :])
                if before.prepared is None and before.committed < epoch:
                    assert (after.prepared is not None) == is_ours
                    commits += [epoch] if is_ours else []
            elif act == "commit" and fold_all(NOTHING, log).prepared == (left or batch(epoch, token)):
                log.append(CommittedRecord(token, epoch, (left or batch(epoch, token)).stages, begun, state))
        known = [each for each in log if not isinstance(each, Begun)]
        if known:
            since, state = known[-1].begun, known[-1].before
            assert fold_all(state, log[since:]) == fold_all(NOTHING, log)
    assert len(commits) == len(set(commits)), "a batch has one commit point"


PLACES = st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)), max_size=20)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["t", "u"]), PLACES), max_size=4))
def test_places_survive_being_packed(
    given_runs: list[tuple[str, str, list[tuple[int, int]]]],
) -> None:
    runs = manifest.joined([[Run(broker, topic, _packed(places))] for broker, topic, places in given_runs])
    bodies = list(manifest.parts("t", runs))
    found = manifest.joined([manifest.read_part(body)[1] for body in bodies])
    assert found == [run for run in runs if run.places]
    assert manifest.rows_of(found) == sum(len(places) for *_, places in given_runs)


def test_many_places_take_several_parts_and_little_room() -> None:
    count = 2 * manifest.PART_PLACES_MAX + 5
    places = _packed([(number, 1_000 + number * 263) for number in range(count)])
    bodies = list(manifest.parts("t", [Run("a", "t", places)]))
    assert [manifest.rows_of(manifest.read_part(body)[1]) for body in bodies] == [100_000, 100_000, 5]
    assert manifest.joined([manifest.read_part(body)[1] for body in bodies]) == [Run("a", "t", places)]
    assert max(map(len, bodies)) < 100_000


def test_halves_that_are_visible_are_left_out() -> None:
    run = Run("a", "t", _packed([(1, 100), (2, 200), (3, 300)]))
    assert manifest.pairs_of(manifest.without(run, frozenset({200, 999}))) == [(1, 100), (3, 300)]


def _packed(places: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qq", *place) for place in places)
