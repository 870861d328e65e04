"""Every kind of message with Apache's Java client, each also with the broker killed (-9) in the middle.

The programs are in `compat/java/clients`. One cluster with short delay levels and check intervals serves the
whole file. `ROQUET_TEST_TARGET=apache` points it at Apache's own broker.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.peers import apache, roquet
from tests.peers.cluster import KillableCluster
from tests.peers.jars import CLIENT_VERSIONS
from tests.peers.java import SCENARIO_TIMEOUT_S, JavaClient, fresh_name

pytestmark = [pytest.mark.java, pytest.mark.process]

LEVELS_MS = (1_000, 2_000, 3_000, 1_000, 2_000, 3_000)
LEVELS = ",".join(map(str, LEVELS_MS))
SETTINGS = {
    "messageDelayLevel": " ".join(f"{delay_ms // 1000}s" for delay_ms in LEVELS_MS),
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableCluster]:
    with KillableCluster(tmp_path_factory.mktemp("kinds"), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module", params=CLIENT_VERSIONS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with JavaClient(request.param, tmp_path_factory.mktemp("client")) as running:
        yield running


def run(
    client: JavaClient, scenario: str, cluster: KillableCluster, name: str, **more: int
) -> dict[str, Any]:
    """Run a scenario on a topic and a group of this name, which its other half has too."""
    topic, group = f"T-{name}", f"G-{name}"
    return client.run(
        scenario, cluster.namesrv, SCENARIO_TIMEOUT_S, topic=topic, group=group, levels=LEVELS, **more
    )


class TestLater:
    """Delay levels, retries and dead letters."""

    @pytest.mark.parametrize("is_killed", [False, True], ids=["calm", "killed"])
    def test_delayed_messages_come_once_and_not_early(
        self, client: JavaClient, cluster: KillableCluster, is_killed: bool
    ) -> None:
        name = fresh_name("delayed")
        run(client, "delay-send", cluster, name)
        if is_killed:
            cluster.crash()
        seen = run(client, "delay-receive", cluster, name)
        assert seen["received"] == 30
        if cluster.target == "roquet" or not is_killed:
            assert (
                seen["deliveries"] == 30
            )  # Apache delivers again what it has not saved before it was killed

    @pytest.mark.parametrize("is_killed", [False, True], ids=["calm", "killed"])
    def test_refused_messages_are_tried_again_and_end_as_dead_letters(
        self, client: JavaClient, cluster: KillableCluster, is_killed: bool
    ) -> None:
        name = fresh_name("retried")
        run(client, "retry-begin", cluster, name)
        if is_killed:
            cluster.crash()
        seen = run(client, "retry-end", cluster, name)
        assert seen["tried"] == 6
        if is_killed:
            assert seen["dead"] >= 6  # a hand-back whose answer was lost is sent again
        else:
            assert seen == {"tried": 6, "dead": 6, "doubled": 0}

    @pytest.mark.parametrize("is_killed", [False, True], ids=["calm", "killed"])
    def test_an_orderly_consumer_gives_up_and_goes_on_in_order(
        self, client: JavaClient, cluster: KillableCluster, is_killed: bool
    ) -> None:
        name = fresh_name("ordered")
        run(client, "ordered-begin", cluster, name)
        if is_killed:
            cluster.crash()
        seen = run(client, "ordered-end", cluster, name)
        assert seen["received"] == 10
        # A dead letter whose answer was lost with the broker is sent again.
        assert seen["dead"] >= 1 if is_killed else seen["dead"] == 1


class TestSelectors:
    """SQL92 over properties, and consumers that are moved."""

    SUBSCRIPTION_PARSE_FAILED = 23

    @pytest.mark.parametrize("is_killed", [False, True], ids=["calm", "killed"])
    def test_selected_messages_come_and_no_others(
        self, client: JavaClient, cluster: KillableCluster, is_killed: bool
    ) -> None:
        name = fresh_name("selected")
        run(client, "sql-send", cluster, name)
        if is_killed:
            cluster.crash()
        assert run(client, "sql-push", cluster, name) == {"received": 21}
        assert run(client, "sql-lite", cluster, name) == {"received": 19}

    def test_a_waiting_consumer_is_woken_by_what_it_selects(
        self, client: JavaClient, cluster: KillableCluster
    ) -> None:
        assert run(client, "sql-late", cluster, fresh_name("late")) == {"received": 2}

    def test_a_wrong_expression_is_an_exception_at_the_start(
        self, client: JavaClient, cluster: KillableCluster
    ) -> None:
        wrong = self.SUBSCRIPTION_PARSE_FAILED
        assert run(client, "sql-wrong", cluster, fresh_name("wrong")) == {"push": wrong, "lite": wrong}

    def test_a_live_consumer_is_moved_by_its_client_when_the_broker_does_not(
        self, client: JavaClient, cluster: KillableCluster
    ) -> None:
        assert run(client, "reset-live", cluster, fresh_name("moved")) == {"distinct": 10}


class TestMovedStores:
    """Messages that wait when one broker ends are delivered by the next: on time, each once."""

    LEVELS = "6000,7000,8000"
    SETTINGS: ClassVar = {
        **apache.SMALL_STORE,
        "messageDelayLevel": "6s 7s 8s",
        "brokerName": "broker-a",
        "brokerClusterName": "DefaultCluster",
    }

    def test_delays_move_from_apache_to_roquet_and_back(self, tmp_path: Path) -> None:
        names = apache.start_namesrv(tmp_path / "namesrv")
        try:
            with JavaClient(CLIENT_VERSIONS[0], tmp_path / "client") as client:
                self._there_and_back(client, names.address, tmp_path)
        finally:
            names.kill()

    def _there_and_back(self, client: JavaClient, namesrv: str, folder: Path) -> None:
        store, settings = folder / "store", self.SETTINGS
        there, back = fresh_name("T-there"), fresh_name("T-back")
        theirs = apache.start_broker(folder / "apache", namesrv, store=store, settings=settings)
        try:
            client.run("delay-send", namesrv, topic=there)
        finally:
            theirs.kill()  # before the first is due
        ours = roquet.start_broker(store, namesrv, settings=settings)
        try:
            assert self._received(client, namesrv, there) == {"received": 30, "deliveries": 30}
            client.run("delay-send", namesrv, topic=back)
            ours.stop()
        finally:
            ours.kill()
        theirs = apache.start_broker(folder / "apache", namesrv, store=store, settings=settings)
        try:
            assert self._received(client, namesrv, back) == {"received": 30, "deliveries": 30}
        finally:
            theirs.kill()

    def _received(self, client: JavaClient, namesrv: str, topic: str) -> dict[str, Any]:
        return client.run("delay-receive", namesrv, topic=topic, levels=self.LEVELS)


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """The only client that can ask for a time."""
    with JavaClient(CLIENT_VERSIONS[0], tmp_path_factory.mktemp("timed")) as running:
        yield running


@pytest.fixture(scope="module")
def recalling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableCluster]:
    settings = {"recallMessageEnable": "true", "timerRollWindowSlot": "4"}
    with KillableCluster(tmp_path_factory.mktemp("recalling"), settings) as running:
        yield running


class TestTimed:
    """Messages for an arbitrary time."""

    @pytest.mark.parametrize("is_killed", [False, True], ids=["calm", "killed"])
    def test_timed_messages_come_once_and_on_time(
        self, timed: JavaClient, recalling: KillableCluster, is_killed: bool
    ) -> None:
        name = fresh_name("timed")
        slack_ms = 30_000 if is_killed else 10_000  # on time, as far as a busy machine lets it be
        timed.run("timer-send", recalling.namesrv, topic=name)
        if is_killed:
            recalling.crash()
        seen = timed.run("timer-receive", recalling.namesrv, topic=name, slack_ms=slack_ms)
        assert seen["received"] == 30
        if recalling.target == "roquet" or not is_killed:
            # Apache files again, and so delivers again, what it had not saved before it was killed.
            assert seen["deliveries"] == 30

    def test_a_recalled_message_does_not_come(self, timed: JavaClient, recalling: KillableCluster) -> None:
        assert timed.run("timer-recall", recalling.namesrv) == {"received": 5, "others": 0}

    def test_timers_move_from_apache_to_roquet_and_back(self, timed: JavaClient, tmp_path: Path) -> None:
        settings = {
            **apache.SMALL_STORE,
            "brokerName": "broker-a",
            "brokerClusterName": "DefaultCluster",
            "mappedFileSizeTimerLog": "2000",
            "timerRollWindowSlot": "8",
        }
        names = apache.start_namesrv(tmp_path / "namesrv")
        try:
            self._there_and_back(timed, names.address, tmp_path, settings)
        finally:
            names.kill()

    def _there_and_back(
        self, client: JavaClient, namesrv: str, folder: Path, settings: dict[str, str]
    ) -> None:
        store, there, back = folder / "store", fresh_name("T-there"), fresh_name("T-back")
        times = {"first_ms": 12_000}
        theirs = apache.start_broker(folder / "apache", namesrv, store=store, settings=settings)
        try:
            client.run("timer-send", namesrv, topic=there, **times)
        finally:
            theirs.kill()  # before the first is due
        ours = roquet.start_broker(store, namesrv, settings=settings)
        try:
            seen = client.run("timer-receive", namesrv, topic=there, slack_ms=60_000)
            assert seen == {"received": 30, "deliveries": 30}
            client.run("timer-send", namesrv, topic=back, **times)
            ours.stop()
        finally:
            ours.kill()
        theirs = apache.start_broker(folder / "apache", namesrv, store=store, settings=settings)
        try:
            seen = client.run("timer-receive", namesrv, topic=back, slack_ms=60_000)
            assert seen == {"received": 30, "deliveries": 30}
        finally:
            theirs.kill()


class TestTransactions:
    """Transactions that are committed, rolled back, and decided when the broker asks."""

    SETTINGS: ClassVar = {
        "transactionCheckInterval": "1000",
        "transactionTimeOut": "2000",
        "transactionCheckMax": "1000",
        # Apache asks about what it has not written down as done, and commits it a second time.
        "transactionOpBatchInterval": "200",
    }

    @pytest.fixture(scope="class")
    @classmethod
    def asking(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableCluster]:
        with KillableCluster(tmp_path_factory.mktemp("asking"), cls.SETTINGS) as running:
            yield running

    @pytest.mark.parametrize("is_killed", [False, True], ids=["calm", "killed"])
    def test_what_is_committed_comes_and_nothing_else(
        self, client: JavaClient, asking: KillableCluster, is_killed: bool
    ) -> None:
        name = fresh_name("transacted")
        client.run("transaction-begin", asking.namesrv, topic=name, wait="no" if is_killed else "asked")
        if is_killed:
            asking.crash()
        seen = client.run("transaction-end", asking.namesrv, topic=name)
        assert seen["received"] == 15
        if asking.target == "roquet" or not is_killed:
            # Apache writes down only now and then what is done, and commits again after a crash.
            assert seen["deliveries"] == 15

    def test_another_producer_of_the_group_answers(self, client: JavaClient, asking: KillableCluster) -> None:
        name = fresh_name("inherited")
        client.run("transaction-begin", asking.namesrv, topic=name)
        client.run("transaction-heir", asking.namesrv, topic=name)
        seen = client.run("transaction-end", asking.namesrv, topic=name)
        assert seen == {"received": 15, "deliveries": 15, "doubled": 0}

    @pytest.mark.parametrize("is_clean", [False, True], ids=["killed", "stopped"])
    def test_halves_move_from_apache_to_roquet_and_back(self, tmp_path: Path, is_clean: bool) -> None:
        names = apache.start_namesrv(tmp_path / "namesrv")
        try:
            with JavaClient(CLIENT_VERSIONS[0], tmp_path / "client") as client:
                self._there_and_back(client, names.address, tmp_path, is_clean)
        finally:
            names.kill()

    def _there_and_back(self, client: JavaClient, namesrv: str, folder: Path, is_clean: bool) -> None:
        store = folder / "store"
        settings = {**apache.SMALL_STORE, **self.SETTINGS, "brokerName": "broker-a"}
        settings["brokerClusterName"] = "DefaultCluster"
        there, over, back = fresh_name("there"), fresh_name("over"), fresh_name("back")
        theirs = apache.start_broker(folder / "apache", namesrv, store=store, settings=settings)
        try:
            client.run("transaction-begin", namesrv, topic=there)
            client.run("transaction-begin", namesrv, topic=over, wait="no")
            if is_clean:
                theirs.stop()
        finally:
            theirs.kill()
        ours = roquet.start_broker(store, namesrv, settings=settings)
        try:
            # What Apache had committed it may not have written down, but what is decided now comes once.
            seen = client.run("transaction-end", namesrv, topic=there)
            assert (seen["received"], seen["doubled"]) == (15, 0)
            client.run("transaction-begin", namesrv, topic=back)
            if is_clean:
                ours.stop()
        finally:
            ours.kill()
        theirs = apache.start_broker(folder / "apache", namesrv, store=store, settings=settings)
        try:
            for topic in (over, back):
                # Apache asks once more while it has not written down an end, and then commits twice.
                assert client.run("transaction-end", namesrv, topic=topic)["received"] == 15
        finally:
            theirs.kill()


class TestReplies:
    """Requests that are answered through the broker, and some that are not."""

    ANSWERED: ClassVar = {"sync": 5, "async": 5, "silent_is_late": True}

    @pytest.mark.parametrize("is_killed", [False, True], ids=["calm", "killed"])
    def test_a_request_is_answered_or_late(
        self, client: JavaClient, cluster: KillableCluster, is_killed: bool
    ) -> None:
        name = fresh_name("asked")
        assert run(client, "reply-begin", cluster, name) == self.ANSWERED
        if is_killed:
            cluster.crash()
        anew = int(is_killed and client.version.startswith("4"))
        assert run(client, "reply-end", cluster, name, anew=anew) == self.ANSWERED

    def test_the_sender_of_a_reply_hears_that_nobody_waits(
        self, client: JavaClient, cluster: KillableCluster
    ) -> None:
        seen = client.run("reply-lost", cluster.namesrv, cluster="DefaultCluster")
        assert seen["code"] == 1
        assert "channel of <nobody@1> not found" in seen["said"]


class TestTraces:
    """What clients tell of their messages in RMQ_SYS_TRACE_TOPIC."""

    def test_sends_and_uses_are_told(self, client: JavaClient, cluster: KillableCluster) -> None:
        assert run(client, "trace", cluster, fresh_name("traced")) == {"told": 15}
