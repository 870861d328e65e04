"""Messages in flight: the position to store never passes an unfinished one, whatever the order of ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roquet.client.core.inflight import Inflight


def test_the_lowest_unfinished_offset_is_the_position() -> None:
    flight = Inflight(10)
    assert flight.lowest() == 10
    flight.add([(offset, 100) for offset in range(10, 16)], 16)
    for offset in (11, 10, 13):
        assert flight.end(offset)
    assert flight.lowest() == 12
    assert (len(flight), flight.size_bytes, flight.span()) == (3, 300, 4)
    for offset in (15, 14, 12):
        flight.end(offset)
    assert (flight.lowest(), flight.span(), flight.size_bytes) == (16, 0, 0)


def test_what_ended_or_never_came_ends_once() -> None:
    flight = Inflight(0)
    flight.add([(0, 1)], 1)
    assert flight.end(0)
    assert not flight.end(0)
    assert not flight.end(7)
    assert flight.size_bytes == 0


def test_offsets_that_did_not_match_count_as_ended() -> None:
    flight = Inflight(0)
    flight.add([], 50)
    assert flight.lowest() == 50
    flight.add([(60, 5)], 80)
    assert flight.lowest() == 60
    flight.end(60)
    assert flight.lowest() == 80
    assert 60 not in flight


@given(st.data())
def test_like_a_set_of_unfinished_offsets(data: st.DataObject) -> None:
    flight, next_offset = Inflight(0), 0
    model: dict[int, int] = {}
    for _ in range(data.draw(st.integers(0, 30))):
        if data.draw(st.booleans()) and model:
            offset = data.draw(st.sampled_from(sorted(model)))
            del model[offset]
            assert flight.end(offset)
        else:
            page = sorted(data.draw(st.sets(st.integers(next_offset, next_offset + 9), max_size=5)))
            next_offset += 10
            model |= {offset: offset + 1 for offset in page}
            flight.add([(offset, offset + 1) for offset in page], next_offset)
        assert flight.lowest() == min(model, default=next_offset)
        assert flight.size_bytes == sum(model.values())
        assert len(flight) == len(model)
