"""What a client asks of its process."""

from __future__ import annotations

import os

import pytest

from roquet.runtime import process


def test_the_first_variable_that_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROQUET_TEST_ONE", " ")
    monkeypatch.setenv("ROQUET_TEST_TWO", " two ")
    assert process.variable("ROQUET_TEST_NONE", "ROQUET_TEST_ONE", "ROQUET_TEST_TWO") == "two"
    assert process.variable("ROQUET_TEST_NONE") == ""


def test_the_number_of_the_process() -> None:
    assert process.pid() == os.getpid()
