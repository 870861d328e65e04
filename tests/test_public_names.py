"""What users may import: the names are pinned and real, and none of them costs anything before its use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import roquet
from roquet.client import errors

NAMES = {
    *("Admin", "Batching", "Cluster", "Consumer", "Hook", "Message", "Outgoing", "Producer", "QueueName"),
    *("Page", "RawPage", "Reader", "Receipt", "Sql", "assign", "sync", "testing"),
    *("BadExpression", "BadMessage", "Busy", "Closed", "Forked", "Misuse", "NamesUnreachable", "NoRoute"),
    *("NotAllowed", "NotFound", "Refused", "ReplyLost", "RoquetError", "SendFailed", "TimedOut"),
    *("TransactionUnsettled", "Unreachable"),
}


def test_the_public_names_are_these() -> None:
    assert set(roquet.__all__) == NAMES
    assert NAMES | {"__version__"} == set(dir(roquet))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_name_is_there(name: str) -> None:
    assert getattr(roquet, name).__name__.rpartition(".")[2] == name


def test_every_error_is_public() -> None:
    found = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.RoquetError)
    }
    assert found <= NAMES


def test_other_names_are_told_as_usual() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Produser'"):
        roquet.Produser  # noqa: B018


def test_the_import_brings_nothing_with_it() -> None:
    script = """
import sys
import roquet
loaded = {name for name in sys.modules if name.startswith("roquet")}
assert loaded == {"roquet"}, loaded
roquet.Producer, roquet.Consumer, roquet.Reader, roquet.Admin, roquet.sync
heavy = {"roquet.broker", "roquet.names", "roquet.cli", "roquet.sim", "roquet.testing"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
