"""The oracle must say Wrong when something is: each promise is broken here once, on purpose."""

from __future__ import annotations

import pytest

from roquet.sim.attempts import Fate, Seen, Survives, Try, Wrong
from roquet.sim.checkers import check_order
from roquet.sim.model_broker import ModelBroker

KEY = ("t", 0)
POSITION = ("g", "t", 0)


def message(body: bytes, queue_offset: int, tag: str = "A", log_offset: int = -1) -> Seen:
    place = queue_offset * 100 if log_offset < 0 else log_offset
    return Seen("t", 0, queue_offset, place, 1_000, tag, "k", body)


def stored(model: ModelBroker, body: bytes, queue_offset: int, survives: Survives = Survives.KILL) -> Try:
    attempt = model.begin("t", 0, "A", "k", body)
    model.stored(attempt, queue_offset, queue_offset * 100, survives, now=1.0)
    return attempt


@pytest.fixture
def model() -> ModelBroker:
    return ModelBroker(Survives.KILL)


def audit(model: ModelBroker, *found: Seen, flushed_offset: int = 0) -> None:
    model.audit(KEY, model.promised(KEY), found, flushed_offset, now=2.0)


def test_what_was_acknowledged_must_be_there_after_a_kill(model: ModelBroker) -> None:
    stored(model, b"one", 0)
    model.died(2.0, False, -1.0, -1.0)
    audit(model, message(b"one", 0))
    with pytest.raises(Wrong, match="is lost"):
        audit(model)


def test_a_power_cut_may_take_what_was_not_promised_to_survive_it_and_only_that(model: ModelBroker) -> None:
    stored(model, b"one", 0, Survives.POWER_CUT)
    weak = stored(model, b"two", 1)
    model.died(2.0, True, -1.0, -1.0)
    audit(model, message(b"one", 0))
    assert weak.fate is Fate.GONE
    with pytest.raises(Wrong, match="was read"):
        model.seen(message(b"two", 1), 3.0)
    with pytest.raises(Wrong, match="is lost"):
        audit(model)


def test_what_lies_before_the_flushed_offset_survives_the_next_power_cut(model: ModelBroker) -> None:
    stored(model, b"one", 0)
    audit(model, message(b"one", 0), flushed_offset=1)
    model.died(2.0, True, -1.0, -1.0)
    with pytest.raises(Wrong, match="is lost"):
        audit(model)


def test_a_message_may_not_change_move_or_come_from_nowhere(model: ModelBroker) -> None:
    stored(model, b"one", 0)
    for seen in (message(b"one", 0, tag="B"), message(b"one", 1), message(b"other", 0)):
        with pytest.raises(Wrong):
            model.seen(seen, 2.0)


def test_two_messages_cannot_have_one_place(model: ModelBroker) -> None:
    stored(model, b"one", 0)
    second = model.begin("t", 0, "A", "k", b"two")
    second.floor = -1
    with pytest.raises(Wrong, match="took the place"):
        model.stored(second, 0, 0, Survives.KILL, 2.0)


def test_a_send_that_began_after_an_acknowledgement_comes_behind_it(model: ModelBroker) -> None:
    stored(model, b"one", 5)
    later = model.begin("t", 0, "A", "k", b"two")
    with pytest.raises(Wrong, match="was taken before"):
        model.stored(later, 4, 400, Survives.KILL, 2.0)


def test_what_was_refused_is_never_seen(model: ModelBroker) -> None:
    attempt = model.begin("t", 0, "A", "k", b"one")
    model.refused(attempt)
    with pytest.raises(Wrong):
        model.seen(message(b"one", 0), 2.0)


def test_an_unanswered_send_may_appear_once(model: ModelBroker) -> None:
    model.begin("t", 0, "A", "k", b"one")
    model.seen(message(b"one", 3), 2.0)
    with pytest.raises(Wrong):
        model.seen(message(b"one", 4), 2.0)


def test_nothing_is_promised_for_a_topic_that_is_being_deleted(model: ModelBroker) -> None:
    stored(model, b"one", 0)
    model.deletes("t")
    model.deleting.append("t")
    model.begin("t", 0, "A", "k", b"two")
    model.deleting.remove("t")
    audit(model)
    stored(model, b"three", 0)
    with pytest.raises(Wrong, match="is lost"):
        audit(model)


def test_offsets_go_back_only_as_far_as_they_were_not_saved(model: ModelBroker) -> None:
    for at in range(3):
        model.committing(POSITION, at, now=10.0 * at)
        model.committed(POSITION, at, now=10.0 * at)
    with pytest.raises(Wrong):
        model.committed(POSITION, 1, 21.0)
    model.died(22.0, False, -1.0, 15.0)
    with pytest.raises(Wrong):
        model.committed(POSITION, 0, 23.0)
    model.committed(POSITION, 1, 23.0)
    with pytest.raises(Wrong):
        model.committed(POSITION, 2, 24.0)


def test_a_lock_has_one_holder_until_it_ends_or_the_broker_dies(model: ModelBroker) -> None:
    model.locked(POSITION, "a", asked_at=0.0, live_s=60.0, now=1.0)
    with pytest.raises(Wrong, match="holds until"):
        model.locked(POSITION, "b", asked_at=50.0, live_s=60.0, now=51.0)
    model.locked(POSITION, "b", asked_at=60.0, live_s=60.0, now=61.0)
    model.unlocked(POSITION, "b")
    model.locked(POSITION, "a", asked_at=62.0, live_s=60.0, now=62.0)
    model.died(63.0, False, -1.0, -1.0)
    model.locked(POSITION, "b", asked_at=63.0, live_s=60.0, now=64.0)


@pytest.mark.parametrize("other", [message(b"2", 2), message(b"2", 1, log_offset=0)])
def test_queue_offsets_are_dense_and_follow_the_log(other: Seen) -> None:
    check_order(KEY, [message(b"1", 0), message(b"2", 1)], is_passing=False)
    with pytest.raises(Wrong):
        check_order(KEY, [message(b"1", 0), other], is_passing=False)
