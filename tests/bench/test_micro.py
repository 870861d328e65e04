"""The micro benchmark's stand-ins: the messages it makes and the transport that counts answers."""

import pytest

from bench.micro import Sink, answer_frame, send_frame
from roquet.wire.frame import BINARY, JSON, join, split
from roquet.wire.requests.send import SendV2, Sent


@pytest.mark.parametrize("encoding", [BINARY, JSON])
def test_its_sends_are_requests(encoding: int) -> None:
    frames, _ = split(join(send_frame(1_025, encoding)))
    request = SendV2.decode(frames[0].ext)
    assert (request.topic, request.queue_id, len(frames[0].body)) == ("BenchmarkTest", 1, 128)


def test_its_answers_are_answers() -> None:
    assert Sent.decode(answer_frame(1_025).ext).queue_offset == 1


def test_answers_are_counted_however_they_are_written() -> None:
    sink = Sink()
    answers = [join(answer_frame(number)) for number in range(5)]
    sink.write(answers[0])
    sink.write(b"".join(answers[1:4]))
    assert sink.answers() == 4
    sink.write(answers[4])
    assert sink.answers() == 5
