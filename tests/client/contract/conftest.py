"""The fixture `server`: every contract test runs three times, against three servers.

The two real ones are started once for this folder and shared: tests take fresh names from `server.fresh`.
They end with the folder's last test, since Apache's broker takes most of a core even when nobody asks it
anything. Select one with `-k memory`, `-k sockets` or `-k apache`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.contract.server import SETTINGS, Server
from tests.peers import apache, roquet

KINDS = ("memory", "sockets", "apache")


@pytest.fixture(
    params=[
        "memory",
        pytest.param("sockets", marks=pytest.mark.process),
        pytest.param("apache", marks=pytest.mark.java),
    ]
)
def server(request: pytest.FixtureRequest) -> Server:
    """The server under test."""
    kind: str = request.param
    return Server(kind, "" if kind == "memory" else request.getfixturevalue(f"{kind}_namesrv"))


@pytest.fixture(scope="package")
def sockets_namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`roquet up`, for all tests of this folder."""
    node = roquet.start_up(tmp_path_factory.mktemp("contract") / "store", settings=SETTINGS)
    try:
        yield node.namesrv
        node.stop()
    finally:
        node.kill()


@pytest.fixture(scope="package")
def apache_namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache's name server and broker, for all tests of this folder."""
    folder = tmp_path_factory.mktemp("contract-apache")
    names = apache.start_namesrv(folder / "namesrv")
    try:
        broker = apache.start_broker(folder / "broker", names.address, settings=SETTINGS)
        try:
            yield names.address
        finally:
            broker.kill()  # Apache's orderly stop takes about 20 s
    finally:
        names.kill()
