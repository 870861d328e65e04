"""Counting a client's messages: the warm-up is cut, and a backlog that runs out ends the measured time."""

import json

import pytest

from bench.sdk.meter import Job, Meter, Report, read_job, read_report

JOB = Job("async", "receive", "127.0.0.1:9876", "T", "g", 128, 2, 16, 0.0, 1e9, 100)


def reported(meter: Meter, capsys: pytest.CaptureFixture[str]) -> Report:
    meter.print_report()
    report = read_report(capsys.readouterr().out)
    assert report is not None
    return report


def test_a_job_travels_as_json() -> None:
    assert read_job(JOB.to_json()) == JOB


def test_messages_of_the_warm_up_do_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(JOB)
    meter.add(0, 7)
    assert meter.pass_time()  # begins here
    meter.add(0, 30)
    meter.add(1, 12)
    meter.failures = 3
    meter.end()
    meter.add(0, 5)
    assert not meter.pass_time()
    report = reported(meter, capsys)
    assert (report.messages, report.failures) == (42, 3)
    assert report.seconds > 0


def test_nothing_begins_before_the_first_message() -> None:
    meter = Meter(JOB._replace(measured_s=0.0))
    assert meter.pass_time() and meter.pass_time()
    meter.add(0, 1)
    assert meter.pass_time()
    assert not meter.pass_time()


def test_the_end_of_the_backlog_is_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(JOB)
    meter.add(0, 1)
    meter.pass_time()
    meter.add(0, 99)
    assert meter.is_over
    assert reported(meter, capsys).messages == 99


def test_a_backlog_that_ends_in_the_warm_up_measures_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(JOB)
    meter.add(0, 100)
    assert meter.is_over
    assert reported(meter, capsys).messages == 0


def test_a_report_is_read_among_other_lines_and_only_when_whole() -> None:
    line = json.dumps(Report(2_000_000, 0, 4.0, 3.0)._asdict())
    assert read_report(f"a warning\n{line}") is None
    report = read_report(f"a warning\n{line}\nmore")
    assert report is not None
    assert (report.per_s, report.cpu_s_per_million) == (500_000.0, 1.5)
