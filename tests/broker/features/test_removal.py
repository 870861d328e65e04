"""Every feature can be taken out of the list: the broker still runs, and the others do what they did.

Those that name it as needed go with it. The others' own tests run in a pytest of their own whose brokers
lack the feature (`conftest.py`); only tests of two kinds that meet are left out, and they are named here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from roquet.broker import features
from roquet.client import Plain
from tests.broker.features.missing import VARIABLE, gone_with, name_of, without
from tests.broker.stage import Stage

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parents[2]

LOCKS: Final = (
    "../test_broker.py::test_a_queue_is_locked_by_one_client_until_it_is_given_back_or_the_lock_ends"
)
TESTS: Final = {
    "retry": "test_retry_stage.py",
    "transaction": "test_transaction.py",
    "timer": "test_timer.py",
    "delay": "test_delay_stage.py",
    "order": LOCKS,
    "filter": "test_filter.py",
    "reply": "test_reply.py",
    "retention": "test_retention.py",
    "slow": "test_slow.py",
}
"""The tests of each feature on a whole broker; one without an entry is a failure."""

MEETING: Final = {
    "test_timer.py::test_a_delay_level_wins_over_a_time": "delay",
    "test_transaction.py::test_a_transaction_that_is_also_delayed_waits_after_its_commit": "delay",
}
"""Tests of one feature that are about another too."""

SLOW: Final = (
    "test_retention.py::test_messages_older_than_the_topic_wants_are_hidden",
    "test_retention.py::test_size_and_time_together",
    "test_delay_stage.py::test_crashes_neither_lose_nor_double_nor_hurry",
    "test_delay_stage.py::test_nothing_runs_while_nothing_waits",
    "test_delay_stage.py::test_a_role_change_neither_loses_nor_doubles",
    "test_timer.py::test_long_delays_are_rolled_and_still_come_at_their_time",
    "test_transaction.py::test_what_nobody_can_decide_is_given_up_and_can_be_resumed",
    "test_transaction.py::test_an_undecided_half_does_not_hold_the_offsets_back_for_ever",
)
"""Left out for their time; each file has quicker tests of the same feature."""

RUNS_AT_ONCE: Final = 2
RUN_S_MAX: Final = 900.0


def built(monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    """Return the features of a whole broker."""
    kept: list[tuple[object, ...]] = []
    build = features.all_features

    def all_features(parts: features.Parts) -> tuple[object, ...]:
        kept.append(build(parts))
        return kept[-1]

    with monkeypatch.context() as patch:
        patch.setattr(features, "all_features", all_features)
        Stage().make_broker()
    return kept[-1]


def test_every_feature_is_taken_out_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name_of(feature) for feature in built(monkeypatch)} == set(TESTS)


@pytest.mark.parametrize("test", [*MEETING, *SLOW])
def test_what_is_left_out_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (FOLDER / file).read_text()


def test_what_needs_a_missing_feature_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = built(monkeypatch)
    assert gone_with(whole, frozenset({"delay"})) == {"delay", "retry"}
    assert gone_with(whole, frozenset({"filter"})) == {"filter"}


@pytest.mark.parametrize("name", TESTS)
def test_a_broker_without_it_moves_messages(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(stage: Stage, client: Plain) -> None:
        await client.send("t", b"one", queue_id=0, tag="A")
        await stage.restart(power_cut=False)
        await client.route("t")
        sent = await client.send("t", b"two", queue_id=0)
        assert sent.queue_offset == 1
        assert [message.body for message in await client.read("t", 0, 0)] == [b"one", b"two"]
        assert [message.body for message in await client.read("t", 0, 0, tags="A")] == [b"one"]
        assert stage.broker is not None
        await stage.broker.close()

    monkeypatch.setattr(features, "all_features", without(features.all_features, frozenset({name})))
    Stage().play(scenario)


class Run(NamedTuple):
    """The tests of the other features without one of them, under way or done."""

    others: list[str]
    said: Future[list[str]]


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Run]]:
    """All of them, two at a time: each takes a core, and this process waits."""
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    pool = ThreadPoolExecutor(RUNS_AT_ONCE)
    with pytest.MonkeyPatch.context() as patch:
        whole = built(patch)
    made = {}
    for name in filter(asked.__contains__, TESTS):
        gone = gone_with(whole, frozenset({name}))
        others = [tests for other, tests in TESTS.items() if other not in gone]
        left_out = [*SLOW, *(test for test, other in MEETING.items() if other in gone)]
        made[name] = Run(others, pool.submit(run, others, left_out, {VARIABLE: name}))
    yield made
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", TESTS)
def test_the_others_do_without_it_what_they_did(name: str, runs: dict[str, Run]) -> None:
    others, said = runs[name].others, runs[name].said.result()
    assert re.fullmatch(r"\d+ passed(, \d+ (deselected|warnings?))* in .*", said[-1]), "\n".join(said[-80:])
    for tests in others:
        path = os.path.relpath(FOLDER / tests, ROOT)
        assert any(line.startswith(f"PASSED {path}") for line in said), f"no test of {path} has run"


def test_the_tests_of_a_feature_fail_without_it() -> None:
    said = run([TESTS["reply"]], [], {VARIABLE: "reply"})
    assert re.fullmatch(r"\d+ failed(, \d+ warnings?)? in .*", said[-1]), "\n".join(said[-80:])


def run(tests: list[str], left_out: list[str], environment: dict[str, str]) -> list[str]:
    """Run tests in a pytest of their own and return its lines."""
    command = [sys.executable, "-m", "pytest", "-q", "-rpfE", "--tb=short", "-p", "no:cacheprovider"]
    command += [f"--deselect={os.path.relpath(FOLDER / test, ROOT)}" for test in left_out]
    command += [os.path.relpath(FOLDER / test, ROOT) for test in tests]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=RUN_S_MAX
    )
    return [*done.stderr.splitlines(), *done.stdout.splitlines()]
