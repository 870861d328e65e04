"""The pytest fixture `roquet_broker`: a broker for one test, synchronous or not, on free ports.

    def test_delay(roquet_broker):
        with roquet.sync.Producer(roquet_broker.namesrv) as producer: ...
        roquet_broker.advance(timedelta(hours=2))

It runs on an event loop in a thread of its own, so it works whatever loop the test runs on, or none.
Registered under the entry point pytest11; `@pytest.mark.roquet(autoCreateTopicEnable=False)` sets keys of
broker.conf. Nothing of the broker is imported before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from roquet.testing.threaded import ThreadedBroker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "roquet(**settings): keys of broker.conf for `roquet_broker`")


@pytest.fixture
def roquet_broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ThreadedBroker]:
    """A name server and a broker of this test's own, with a clock that the test moves."""
    from roquet.testing.threaded import ThreadedBroker

    marker = request.node.get_closest_marker("roquet")
    broker = ThreadedBroker(tmp_path / "roquet", {} if marker is None else marker.kwargs)
    try:
        yield broker
    finally:
        broker.close()
