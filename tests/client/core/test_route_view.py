"""What a client reads out of a route: queues in order, and where their brokers are."""

from __future__ import annotations

import pytest

from roquet.client.core.route_view import RouteView, promised
from roquet.client.errors import Unreachable
from roquet.model.route import BrokerData, QueueData, Route


def queues(name: str, perm: int = 6, read: int = 2, write: int = 2) -> QueueData:
    return QueueData(name, perm, read, 0, write)


def broker(name: str, *ids: int) -> BrokerData:
    return BrokerData({number: f"{name}-{number}:10911" for number in ids}, name, "c")


def shown(found: object) -> list[str]:
    assert isinstance(found, tuple)
    return [f"{queue.broker_name}{queue.queue_id}" for queue in found]


def test_queues_go_by_broker_name() -> None:
    route = Route((queues("b", read=3), queues("a", write=1)), (broker("b", 0), broker("a", 0, 1)))
    view = RouteView("t", route)
    assert shown(view.write_queues()) == ["a0", "b0", "b1"]
    assert shown(view.read_queues()) == ["a0", "a1", "b0", "b1", "b2"]
    assert {queue.topic for queue in view.read_queues()} == {"t"}
    assert view.brokers() == ("a", "b")
    assert view.addresses() == {"a-0:10911", "a-1:10911", "b-0:10911"}
    assert view.masters() == {"a-0:10911", "b-0:10911"}


def test_writing_needs_permission_and_a_master() -> None:
    route = Route(
        (queues("a", perm=4), queues("b", perm=2), queues("c"), queues("d")), (broker("b", 0), broker("c", 1))
    )
    view = RouteView("t", route)
    assert shown(view.write_queues()) == ["b0", "b1"]
    assert shown(view.read_queues()) == ["a0", "a1", "c0", "c1", "d0", "d1"]


def test_an_ordered_topic_keeps_its_order_whoever_is_there() -> None:
    route = Route((queues("a"),), (broker("a", 0),), order_conf="b:2;a:1;x;y:z")
    assert shown(RouteView("t", route).write_queues()) == ["b0", "b1", "a0"]


def test_addresses_of_a_broker() -> None:
    view = RouteView("t", Route((), (broker("a", 0, 2), broker("b", 1, 3))))
    assert view.master("a") == "a-0:10911"
    for name in ("b", "nobody"):
        with pytest.raises(Unreachable, match=f"broker {name} .*no master"):
            view.master(name)
    assert view.reader("a") == "a-0:10911"
    assert view.reader("a", 1) == "a-2:10911"
    assert view.reader("a", 7) == "a-0:10911"
    assert view.reader("b") == "b-1:10911"
    assert view.reader("b", 2) == "b-3:10911"
    with pytest.raises(Unreachable, match="no broker named nobody"):
        view.reader("nobody")


def test_equal_is_what_leads_to_the_same_queues() -> None:
    one = RouteView("t", Route((queues("a"), queues("b")), (broker("a", 0), broker("b", 0))))
    turned = RouteView("t", Route((queues("b"), queues("a")), (broker("b", 0), broker("a", 0))))
    assert one == turned
    assert one != RouteView("u", one.route)
    assert one != RouteView("t", one.route._replace(brokers=(broker("a", 0), broker("b", 0, 1))))
    assert one != "t"
    assert repr(one) == "<RouteView t: 4 queues at ['a', 'b']>"


def test_a_promised_topic_has_at_most_four_queues() -> None:
    model = RouteView("TBW102", Route((queues("a", 7, 8, 16), queues("b", 7, 2, 8)), (broker("a", 0),)))
    view = promised("t", model)
    assert shown(view.write_queues()) == ["a0", "a1", "a2", "a3"]
    assert shown(view.read_queues()) == ["a0", "a1", "a2", "a3", "b0", "b1"]
    assert {queue.topic for queue in view.write_queues()} == {"t"}
