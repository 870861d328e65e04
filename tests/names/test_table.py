"""The rules of registering and leaving, one by one (RouteInfoManager of Apache 5.5.0)."""

from __future__ import annotations

from typing import Any

import pytest

from roquet.model.route import BrokerData, QueueData
from roquet.model.topic import DataVersion, Topic
from roquet.names.expiry import Place
from roquet.names.table import Joining, Leaving, MinIdChange, Registered, Rules, Table, Verdict
from roquet.wire.bodies.registration import Registration

CLUSTER = "c"
RULES = Rules()


def joining(broker_id: int = 0, address: str = "", name: str = "a", **more: object) -> Joining:
    at = address or f"h:{10 + broker_id}"
    who = Joining(CLUSTER, name, broker_id, at, at + "1", f"link {at}")
    return who._replace(**more)  # type: ignore[arg-type]


def brought(*topics: str, counter: int = 1, state: int = 0, perm: int = 6, queues: int = 4) -> Registration:
    return Registration(
        DataVersion(counter, state, 0),
        {
            name: Topic(topic_name=name, perm=perm, read_queue_nums=queues, write_queue_nums=queues)
            for name in topics
        },
    )


def table_with(*who: Joining, rules: Rules = RULES, topics: tuple[str, ...] = ("t", "u")) -> Table:
    table = Table(rules)
    for each in who:
        assert table.register(each, brought(*topics), 0).verdict is Verdict.REGISTERED
    return table


def perms(table: Table, topic: str) -> dict[str, int]:
    route = table.route(topic)
    return {} if route is None else {each.broker_name: each.perm for each in route.queues}


def addresses(table: Table, name: str = "a") -> dict[int, str]:
    broker = table.routes.brokers.get(name)
    return {} if broker is None else broker.broker_addrs


class TestRegistering:
    def test_a_master_is_routed_to(self) -> None:
        table = table_with(joining(zone="east"))
        route = table.route("t")
        assert route is not None
        assert route.brokers == (BrokerData({0: "h:10"}, "a", CLUSTER, False, "east"),)
        assert route.queues == (QueueData("a", 6, 4, 0, 4),)
        assert table.route("other") is None

    def test_an_address_has_one_id(self) -> None:
        table = table_with(joining(0), joining(1))
        table.register(joining(0, "h:11"), brought("t", "u"), 0)
        assert addresses(table) == {0: "h:11"}

    def test_a_larger_state_version_holds_its_id(self) -> None:
        table = Table(RULES)
        table.register(joining(0, "h:1"), brought("t", "u", state=5), 0)
        table.register(joining(1, "h:2"), brought("t", "u"), 0)
        assert table.register(joining(0, "h:2"), brought("t", "u", state=4), 0) == Registered(
            Verdict.OUTRANKED
        )
        assert addresses(table) == {0: "h:1"}
        assert table.version_of(Place(CLUSTER, "h:2")) is None

    def test_an_equal_state_version_takes_the_id_over(self) -> None:
        table = table_with(joining(0, "h:1"))
        table.register(joining(0, "h:2"), brought("t", "u"), 0)
        assert addresses(table) == {0: "h:2"}

    def test_one_topic_alone_is_too_early_for_an_unknown_broker(self) -> None:
        table = Table(RULES)
        assert table.register(joining(), brought("t"), 0) == Registered(Verdict.TOO_EARLY)
        assert not table.routes.brokers and not table.routes.clusters
        assert table.register(joining(), brought(), 0).verdict is Verdict.REGISTERED
        assert table.register(joining(), brought("t", counter=2), 0).verdict is Verdict.REGISTERED
        assert perms(table, "t") == {"a": 6}

    def test_the_tables_have_a_bound(self) -> None:
        table = Table(RULES, topics_max=3)
        assert table.register(joining(), brought("t", "u"), 0).verdict is Verdict.REGISTERED
        assert table.register(joining(), brought("v", "w", counter=2), 0).verdict is Verdict.TOO_MANY
        assert table.register(joining(), brought("t", "u", "v", counter=3), 0).verdict is Verdict.REGISTERED
        assert not table.register_topic("x", [QueueData("a", 6, 1, 0, 1)])

    def test_the_same_data_version_changes_nothing_but_adds_what_is_missing(self) -> None:
        table = table_with(joining())
        table.register(joining(), brought("t", "new", perm=2), 0)
        assert (perms(table, "t"), perms(table, "new")) == ({"a": 6}, {"a": 2})

    def test_a_new_id_rewrites_even_with_the_same_data_version(self) -> None:
        table = table_with(joining(1, "h:1"))
        table.register(joining(0, "h:1"), brought("t", "u", perm=4), 0)
        assert perms(table, "t") == {"a": 4}

    def test_a_new_data_version_rewrites(self) -> None:
        table = table_with(joining())
        table.register(joining(), brought("t", counter=2, perm=4), 0)
        assert (perms(table, "t"), perms(table, "u")) == ({"a": 4}, {"a": 6})

    def test_missing_topics_go_only_when_told_so(self) -> None:
        table = table_with(joining(), rules=Rules(delete_topic_with_broker_registration=True))
        table.register(joining(), brought("u", "v", counter=2), 0)
        assert list(table.routes.topics()) == ["u", "v"]

    def test_filter_servers_and_mappings_are_handed_on(self) -> None:
        table = Table(RULES)
        mapping = {"bname": "a", "currIdMap": {0: 0}}
        table.register(
            joining(), brought("t", "u")._replace(filter_servers=("f:1",), mappings={"t": mapping}), 0
        )
        route = table.route("t")
        assert route is not None
        assert (route.filter_servers, dict(route.mappings)) == ({"h:10": ["f:1"]}, {"a": mapping})
        table.register(joining(), brought("t", "u"), 0)
        table.delete_topic("t")
        table.register(joining(), brought("t", "u"), 0)
        route = table.route("t")
        assert route is not None
        assert (route.filter_servers, dict(route.mappings)) == ({}, {})


class TestSlaves:
    def test_a_slave_learns_its_live_master(self) -> None:
        table = table_with(joining(0))
        assert table.register(joining(1), brought("t", "u"), 0) == Registered(
            Verdict.REGISTERED, "h:10", "h:101"
        )

    def test_a_slave_beside_a_master_brings_no_topics(self) -> None:
        table = table_with(joining(0))
        table.register(joining(1), brought("t", "only-slave", counter=9), 0)
        assert "only-slave" not in table.routes

    @pytest.mark.parametrize(
        ("more", "perm"),
        [({"acting_master": True}, {"a": 4}), ({}, {"a": 6}), ({"is_old": True}, {})],
    )
    def test_the_smallest_id_alone_brings_topics(self, more: dict[str, Any], perm: dict[str, int]) -> None:
        table = table_with(joining(1, **more))
        assert perms(table, "t") == perm

    @pytest.mark.parametrize(
        ("topic", "supported", "shown"),
        [
            ("t", True, {0: "h:11", 2: "h:12"}),
            ("t", False, {1: "h:11", 2: "h:12"}),
            ("rmq_sys_SYNC_BROKER_MEMBER_a", True, {1: "h:11", 2: "h:12"}),
        ],
    )
    def test_an_acting_master_is_shown_as_master(
        self, topic: str, supported: bool, shown: dict[int, str]
    ) -> None:
        slaves = [joining(each, acting_master=True) for each in (1, 2)]
        table = table_with(*slaves, rules=Rules(support_acting_master=supported), topics=("t", topic, "u"))
        route = table.route(topic)
        assert route is not None
        assert route.brokers[0].broker_addrs == shown
        assert addresses(table) == {1: "h:11", 2: "h:12"}

    def test_topics_become_read_only_when_an_acting_master_is_needed(self) -> None:
        table = table_with(joining(0, acting_master=True), joining(1, acting_master=True))
        table.unregister(Leaving(CLUSTER, "a", "h:10"))
        assert perms(table, "t") == {"a": 4}

    def test_topics_stay_writable_without_acting_masters(self) -> None:
        table = table_with(joining(0), joining(1))
        table.unregister(Leaving(CLUSTER, "a", "h:10"))
        assert perms(table, "t") == {"a": 6}


class TestSmallestId:
    RULES = Rules(notify_min_broker_id_changed=True)

    def test_others_are_told_of_a_smaller_one(self) -> None:
        table = table_with(joining(1), joining(2), rules=self.RULES)
        done = table.register(joining(0), brought("t", "u"), 0)
        assert done.notices == (MinIdChange("a", 0, "h:10", ("h:11", "h:12"), None, "h:101"),)

    def test_nobody_is_told_of_a_larger_one_or_of_the_first(self) -> None:
        table = Table(self.RULES)
        for each in (1, 2):
            assert table.register(joining(each), brought("t", "u"), 0).notices == ()

    def test_the_rest_is_told_when_the_smallest_leaves(self) -> None:
        members = [joining(each, acting_master=True) for each in (0, 1, 2)]
        table = table_with(*members, rules=self.RULES)
        assert table.unregister(Leaving(CLUSTER, "a", "h:12")) == ()
        assert table.unregister(Leaving(CLUSTER, "a", "h:10")) == (
            MinIdChange("a", 1, "h:11", ("h:11",), "h:10"),
        )

    def test_nobody_is_told_unless_the_rules_say_so(self) -> None:
        table = table_with(joining(0, acting_master=True), joining(1, acting_master=True))
        assert table.unregister(Leaving(CLUSTER, "a", "h:10")) == ()


class TestLeaving:
    def test_the_last_address_takes_name_topics_and_cluster_along(self) -> None:
        table = table_with(
            joining(name="a"), joining(1, name="b", address="h:2"), joining(0, name="b", address="h:3")
        )
        table.unregister(Leaving(CLUSTER, "a", "h:10"))
        assert list(table.routes.brokers) == ["b"]
        assert perms(table, "t") == {"b": 6}
        for address in ("h:2", "h:3"):
            table.unregister(Leaving(CLUSTER, "b", address))
        assert not table.routes.clusters and not len(table.routes)

    def test_an_unknown_broker_may_leave(self) -> None:
        assert table_with(joining()).unregister(Leaving("x", "y", "z:1")) == ()

    def test_a_closed_link_takes_its_brokers_out(self) -> None:
        table = table_with(joining(0, link=1), joining(0, "h:2", "b", link=1), joining(0, "h:3", "d", link=2))
        gone = table.close_link(1)
        assert gone.places == (Place(CLUSTER, "h:10"), Place(CLUSTER, "h:2"))
        assert list(table.routes.brokers) == ["d"]
        assert table.close_link(1).places == ()

    def test_a_broker_that_came_back_over_a_new_link_stays_when_the_old_one_closes(self) -> None:
        table = table_with(joining(link=1), joining(link=2))
        assert table.close_link(1).places == ()
        assert addresses(table) == {0: "h:10"}

    def test_silence_ends_after_the_time_out_and_not_before(self) -> None:
        table = table_with(joining(0, link=1), joining(0, "h:2", "b", link=2, timeout_ms=10_000))
        assert table.expire(10_000).places == ()
        gone = table.expire(10_001)
        assert (gone.places, gone.links) == ((Place(CLUSTER, "h:2"),), (2,))
        table.refresh(Place(CLUSTER, "h:10"), 50_000)
        table.refresh(Place(CLUSTER, "nobody:1"), 50_000)
        assert table.expire(170_000).places == ()
        assert table.expire(170_001).places == (Place(CLUSTER, "h:10"),)

    def test_an_address_that_lost_its_id_expires_without_harm(self) -> None:
        table = table_with(joining(0, "h:1"), joining(0, "h:2"))
        table.refresh(Place(CLUSTER, "h:2"), 100_000)
        assert table.expire(130_000).places == (Place(CLUSTER, "h:1"),)
        assert addresses(table) == {0: "h:2"}


class TestTopics:
    def test_wiping_lasts_until_the_next_change(self) -> None:
        table = table_with(joining())
        assert table.wipe_write("a") == 2
        table.register(joining(), brought("t", "u"), 0)
        assert perms(table, "t") == {"a": 4}
        table.register(joining(), brought("t", "u", counter=2), 0)
        assert perms(table, "t") == {"a": 6}

    def test_adding_makes_readable_and_writable(self) -> None:
        table = Table(RULES)
        table.register(joining(), brought("t", "u", perm=1), 0)
        assert (table.add_write("a"), table.add_write("nobody")) == (2, 0)
        assert perms(table, "u") == {"a": 6}

    def test_deleting_everywhere_or_in_one_cluster(self) -> None:
        table = table_with(joining(), joining(0, "h:2", "b", cluster="other"))
        table.delete_topic_of_cluster("t", "other")
        table.delete_topic_of_cluster("t", "no such")
        assert perms(table, "t") == {"a": 6}
        table.delete_topic("t")
        assert table.route("t") is None
        assert list(table.routes.topics_of("a")) == ["u"]

    def test_registering_one_topic_needs_known_brokers(self) -> None:
        table = table_with(joining())
        assert not table.register_topic("x", [QueueData("a", 6, 1, 0, 1), QueueData("z", 6, 1, 0, 1)])
        assert table.route("x") is None
        assert table.register_topic("x", [QueueData("a", 6, 1, 0, 1)])
        assert perms(table, "x") == {"a": 6}

    def test_lists(self) -> None:
        table = Table(RULES)
        flags = {"plain": 0, "unit": 1, "sub": 2, "both": 3}
        topics = {name: Topic(topic_name=name, topic_sys_flag=flag) for name, flag in flags.items()}
        table.register(joining(), Registration(DataVersion(), topics), 0)
        table.register(joining(0, "h:2", "b", cluster="other"), brought("plain", "more"), 0)
        routes = table.routes
        assert list(routes.topics()) == ["plain", "unit", "sub", "both", "more"]
        assert routes.topics_of_cluster("other") == ["plain", "more"]
        assert routes.topics_of_cluster("nowhere") == []
        assert routes.unit_topics() == ["unit", "both"]
        assert routes.unit_sub_topics() == ["sub", "both"]
        assert routes.unit_sub_only_topics() == ["sub"]
        assert (routes.some_address(), Table(RULES).routes.some_address()) == ("h:10", "")

    def test_members_version_moves_only_with_brokers(self) -> None:
        table = table_with(joining())
        before = table.routes.members_version
        table.register(joining(), brought("v", "w", counter=2), 5)
        assert table.routes.members_version == before
        table.register(joining(1), brought("t", "u"), 5)
        assert table.routes.members_version > before

    def test_a_route_does_not_change_under_its_reader(self) -> None:
        table = table_with(joining())
        route = table.route("t")
        table.wipe_write("a")
        table.unregister(Leaving(CLUSTER, "a", "h:10"))
        assert route is not None
        assert (route.queues[0].perm, route.brokers[0].broker_addrs) == (6, {0: "h:10"})
