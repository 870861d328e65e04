"""Lines of Apache's benchmark programs, as 5.5.0 prints them."""

import pytest

from bench.reports import Report, combine, consumed_reports, sent_reports

SENT = (
    "topic: BenchmarkTest, threadCount: 64, messageSize: 128, keyEnable: false\n"
    "Current Time: 2026-11-15 09:38:06,694 | Send TPS: 4973 | Max RT(ms): 1766 | "
    "Average RT(ms):  13.129 | Send Failed: 0 | Response Failed: 0\n"
    "Current Time: 2026-11-15 09:38:07,825 | Send TPS: 5408 | Max RT(ms): 1766 | "
    "Average RT(ms):  12.162 | Send Failed: 2 | Response Failed: 3\n"
)
CONSUMED = (
    "Consumer Started.\n"
    "Current Time: 2026-11-15 09:38:19,522 | Consume TPS: 6296 | AVG(B2C) RT(ms): 11584.084 | "
    "AVG(S2C) RT(ms): 11579.499 | MAX(B2C) RT(ms): 17826 | MAX(S2C) RT(ms): 17821 | Consume Fail: 1\n"
)


def test_the_producer_s_lines_are_read() -> None:
    assert sent_reports(SENT) == [Report(4973.0, 13.129, 0), Report(5408.0, 12.162, 5)]


def test_the_consumer_s_lines_are_read() -> None:
    assert consumed_reports(CONSUMED) == [Report(6296.0, 0.0, 1)]


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_a_line_that_is_still_being_written_waits(cut: int) -> None:
    assert len(sent_reports(SENT[:-cut])) == 1


def test_a_producer_that_has_sent_nothing_has_no_mean() -> None:
    assert sent_reports(SENT.replace(" 13.129", "    NaN"))[0].mean_ms == 0.0


def test_windows_count_by_their_messages() -> None:
    combined = combine([Report(1_000.0, 2.0, 0), Report(3_000.0, 6.0, 4)])
    assert combined == Report(2_000.0, 5.0, 4)


def test_windows_without_messages_combine_to_nothing() -> None:
    assert combine([Report(0.0, 0.0, 0)]) == Report(0.0, 0.0, 0)
