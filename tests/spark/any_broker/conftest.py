"""Two kinds of brokers: one of ours in this process, and one Apache 5.5.0 for all tests of this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers import apache
from tests.spark.shop import LOG_FILE_BYTES, Shop

APACHE = {
    "mappedFileSizeCommitLog": str(LOG_FILE_BYTES),
    "enablePropertyFilter": "true",
    # Files go when a test says so, at once, and never because the disk of the machine is full.
    "cleanFileForciblyEnable": "false",
    "cleanResourceInterval": "500",
}


@pytest.fixture(scope="package")
def apache_namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Apache 5.5.0 for all tests here; topics must have names of their own."""
    folder = tmp_path_factory.mktemp("apache")
    names = apache.start_namesrv(folder / "namesrv")
    try:
        broker = apache.start_broker(folder / "broker", names.address, settings=APACHE)
        try:
            yield names.address
        finally:
            broker.kill()  # Apache's orderly stop takes about 20 s
    finally:
        names.kill()


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.java)])
def shop(request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A broker of ours in this process, and then Apache's: what holds for one holds for the other."""
    if request.param == "ours":
        yield request.getfixturevalue("ours")
        return
    with Shop(request.getfixturevalue("apache_namesrv")) as shop:
        yield shop
