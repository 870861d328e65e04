"""Order with Apache's Java client: orderly members of a group come and go, and the broker is killed (-9).

Messages numbered for each queue are sent all the time. The program `Ordering` of `compat/java/clients` writes
down what all members consume and fails at a number that comes before the one in front of it was consumed;
numbers may come again. `ROQUET_TEST_TARGET=apache` points it at Apache's own broker.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.cluster import KillableCluster
from tests.peers.jars import CLIENT_VERSIONS
from tests.peers.java import JavaClient, fresh_name

pytestmark = [pytest.mark.java, pytest.mark.process]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableCluster]:
    with KillableCluster(tmp_path_factory.mktemp("order"), {}) as running:
        yield running


def test_order_survives_members_that_come_and_go_and_a_killed_broker(
    cluster: KillableCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic, group = fresh_name("T-order"), fresh_name("G-order")
    # Only this client: 4.9.8 passes too, but waits for half a minute after the crash by itself.
    with JavaClient(CLIENT_VERSIONS[0], tmp_path_factory.mktemp("client")) as client:

        def step(scenario: str) -> dict[str, Any]:
            return client.run(scenario, cluster.namesrv, topic=topic, group=group)

        alone = step("order-begin")
        both = step("order-join")
        assert both["second"] > 0
        cluster.crash()
        after = step("order-join")
        assert after["first"] > both["first"] > alone["first"]
        assert after["second"] > both["second"]
        left = step("order-leave")
        seen = step("order-end")
    assert seen["missing"] == 0
    assert seen["each"] >= 4 * 50
    assert seen["second"] >= left["second"]
