"""The fixture `roquet`: commands against a broker that all tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from roquet.testing import ThreadedBroker
from tests.cli.place import Place


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadedBroker]:
    running = ThreadedBroker(tmp_path_factory.mktemp("cli") / "store", {})
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def roquet(broker: ThreadedBroker) -> Place:
    return Place(broker.namesrv)
