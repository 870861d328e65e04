"""Lines of Apache's benchmark programs, as 5.5.0 prints them."""

from collections.abc import Callable

import pytest

from bench.reports import (
    REPORT_SPAN_S,
    Report,
    batched_reports,
    combine,
    consumed_reports,
    sent_reports,
    timed_reports,
    transacted_reports,
)

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

TIMED = (
    "namesrvAddr: 127.0.0.1:9876, topic: BenchmarkTest, threadCount: 64, messageSize: 128, "
    "precisionMs: 1000, slotsTotal: 100, msgsTotalPerSlotThread: 5000, slotDis: 1000\n"
    "Start sending messages\n"
    "Send TPS: 9012, Max RT: 512, Average RT:   7.101, Send Failed: 0, Response Failed: 0\n"
    "Send TPS: 11870, Max RT: 512, Average RT:  15.391, Send Failed: 4, Response Failed: 3\n"
)


def transacted(rate: int, failed: int) -> str:
    return (
        f"Current Time: 2026-11-15 10:55:12,345 | Send TPS: {rate:5} | Max RT(ms):   181 | AVG RT(ms): 12.5 "
        f"| Send Failed: {failed} | Check: 7 | UnexpectedCheck: 6 | DuplicatedCheck: 5\n"
    )


def test_the_producer_s_lines_are_read() -> None:
    assert sent_reports(SENT) == [Report(4973.0, 13.129, 0), Report(5408.0, 12.162, 5)]


def test_the_consumer_s_lines_are_read() -> None:
    assert consumed_reports(CONSUMED) == [Report(6296.0, 0.0, 1)]


def test_the_timer_s_lines_are_read() -> None:
    assert timed_reports(TIMED) == [Report(9012.0, 7.101, 0), Report(11_870.0, 15.391, 7)]


def test_the_batch_producer_s_lines_count_messages() -> None:
    text = (
        "Current Time: 2026-11-15 13:30:01,001 | Send TPS: 410 | Send MPS: 104960 | Max RT(ms): 93 | "
        "Average RT(ms):  19.453 | Average Message RT(ms):   0.076 | Send Failed: 2 | "
        "Send Message Failed: 512\n"
    )
    assert batched_reports(text) == [Report(104_960.0, 19.453, 2)]


def test_the_transaction_producer_s_lines_are_read() -> None:
    text = transacted(812, 2) + transacted(12_345, 1)
    assert transacted_reports(text) == [Report(812.0, 12.5, 2), Report(12_345.0, 12.5, 1)]
    assert transacted_reports(text[:-1]) == [Report(812.0, 12.5, 2)]


def test_failed_transactions_add_up_over_lines_that_touch() -> None:
    # Line 1 and line 10 have no second in common; the lines between count what these do a second time.
    lines = [transacted(100, 3)] + [transacted(100, 3)] * (REPORT_SPAN_S - 1) + [transacted(100, 2)]
    assert transacted_reports("".join(lines))[-1].failures == 5


@pytest.mark.parametrize("parse", [sent_reports, consumed_reports, timed_reports, transacted_reports])
def test_each_program_s_lines_are_read_by_its_own_parser_alone(
    parse: Callable[[str], list[Report]],
) -> None:
    texts = [SENT, CONSUMED, TIMED, transacted(1, 0)]
    assert len([text for text in texts if parse(text)]) == 1


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
