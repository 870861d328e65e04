"""`roquet pipeline`: commands made of the pipelines' own arguments, and wrong ones told without Spark."""

from __future__ import annotations

import pytest

from roquet.spark.pipelines import HOMES, load
from roquet.spark.pipelines.arguments import arguments_of
from tests.cli.place import run


def test_the_pipelines_are_listed() -> None:
    ran = run("pipeline", "--help", COLUMNS="200")
    assert ran.code == 0
    assert all(name in ran.out for name in HOMES)


@pytest.mark.parametrize("name", HOMES)
def test_a_command_has_the_arguments_of_its_pipeline(name: str) -> None:
    ran = run("pipeline", name, "--help", COLUMNS="200")
    assert ran.code == 0
    for argument in arguments_of(load(name)):
        assert all(f"{flag} " in ran.out for flag in argument.flags)
    assert "--json" in ran.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("archive", "--topics", "orders"), "--to is missing"),
        (("archive", "--to", "x", "--every", "soon"), "--every wants duration"),
        (("audit", "--since", "yesterday"), "--since wants time"),
    ],
)
def test_wrong_arguments_are_one_sentence(words: tuple[str, ...], told: str) -> None:
    ran = run("pipeline", *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert told in ran.err


def test_a_pipeline_that_there_is_not() -> None:
    assert run("pipeline", "archiv").code == 2
