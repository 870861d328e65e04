"""Apache's Java client, 5.5.0 and 4.9.8, against a cluster: everything that applications do with it.

The programs are in `compat/java/clients`; each scenario checks by itself that what it received equals what
it sent, and reports the numbers that are compared here. One JVM for each version runs all of them.
`ROQUET_TEST_TARGET=apache` points the file at Apache's own broker.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.cluster import Cluster, running_cluster
from tests.peers.jars import CLIENT_VERSIONS
from tests.peers.java import BINARY_HEADERS, VIP_CHANNEL, JavaClient

pytestmark = [pytest.mark.java, pytest.mark.process]

MESSAGE_ILLEGAL = 13
INVALID_PARAMETER = 29

SCENARIOS: dict[str, dict[str, Any]] = {
    "sync": {"received": 20},
    "async": {"received": 50},
    "oneway": {"received": 20},
    "batch": {"received": 50},
    "properties": {"received": 2},
    "compressed": {"received": 1, "body_bytes": 210_000},
    "large": {"received": 1, "too_large_code": MESSAGE_ILLEGAL},
    "clustering": {"left": 40, "right": 40},
    "broadcasting": {"each": 80},
    "tags": {"received": 44},
    "orderly": {"received": 100, "queues": 4},
    "lite-subscribe": {"first": 40, "second": 8},
    "lite-assign": {"after_seek": 4, "from_begin": 20},
    "create-topic": {"queues": 5, "max_offset": 3},
    "query": {"by_key": 3, "by_id": 6, "by_unique_key": 6},
    "illegal-topic": {"client_code": -1, "send_code": INVALID_PARAMETER, "create_code": INVALID_PARAMETER},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("java")) as running:
        yield running


@pytest.fixture(scope="module", params=CLIENT_VERSIONS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with JavaClient(request.param, tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(client: JavaClient, cluster: Cluster, scenario: str) -> None:
    assert client.run(scenario, cluster.namesrv) == SCENARIOS[scenario]


@pytest.mark.parametrize("flag", [BINARY_HEADERS, VIP_CHANNEL], ids=["binary-headers", "vip-channel"])
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_flags_of_the_whole_client(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, version: str, flag: str
) -> None:
    with JavaClient(version, tmp_path_factory.mktemp("flagged"), [flag]) as flagged:
        for scenario in ("sync", "batch", "clustering"):
            assert flagged.run(scenario, cluster.namesrv) == SCENARIOS[scenario]


def test_group_of_three_shares_again_when_one_leaves_and_one_comes(
    client: JavaClient, cluster: Cluster
) -> None:
    seen = client.run("rebalance", cluster.namesrv)
    assert seen["received"] == 5 * 160


def test_hundred_thousand_messages_each_once(client: JavaClient, cluster: Cluster) -> None:
    seen = client.run("volume", cluster.namesrv, count=100_000)
    assert (seen["distinct"], seen["deliveries"]) == (100_000, 100_000)


@pytest.mark.parametrize("where", ["FIRST_OFFSET", "LAST_OFFSET", "TIMESTAMP"])
def test_new_group_begins_at_zero_while_the_first_message_is_there(
    client: JavaClient, cluster: Cluster, where: str
) -> None:
    # Apache's broker answers offset 0 for a group without an offset, whatever the client would choose.
    assert client.run("begin", cluster.namesrv, where=where) == {"old": 20, "new": 20}


@pytest.mark.parametrize(("where", "old"), [("FIRST_OFFSET", 20), ("LAST_OFFSET", 0), ("TIMESTAMP", 0)])
def test_broadcasting_consumer_begins_where_it_says(
    client: JavaClient, cluster: Cluster, where: str, old: int
) -> None:
    seen = client.run("begin", cluster.namesrv, where=where, model="BROADCASTING")
    assert seen == {"old": old, "new": 20}
