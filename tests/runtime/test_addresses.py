"""Where a broker listens and what it tells clients: closed unless somebody asked."""

from __future__ import annotations

import pytest

from roquet.runtime.addresses import is_loopback, plan_addresses, route_ip
from roquet.runtime.settings import BrokerSettings, Endpoint

ROUTE = "10.0.0.9"


@pytest.mark.parametrize(
    ("bind_address", "ip1", "bind", "advertise", "noted"),
    [
        ("", "", ("127.0.0.1",), "127.0.0.1", False),
        ("", "127.0.0.1", ("127.0.0.1",), "127.0.0.1", False),
        ("", "127.0.0.2", ("127.0.0.2", "127.0.0.1"), "127.0.0.2", True),
        ("", "10.0.0.5", ("10.0.0.5", "127.0.0.1"), "10.0.0.5", True),
        ("127.0.0.3", "", ("127.0.0.3",), "127.0.0.3", False),
        ("127.0.0.1", "10.0.0.5", ("127.0.0.1",), "127.0.0.1", True),
        ("::1", "", ("::1",), "::1", False),
        ("0.0.0.0", "", ("0.0.0.0",), ROUTE, False),
        ("::", "", ("::",), ROUTE, False),
        ("0.0.0.0", "10.0.0.5", ("0.0.0.0",), "10.0.0.5", False),
        ("10.0.0.6", "", ("10.0.0.6",), "10.0.0.6", False),
        ("10.0.0.6", "203.0.113.1", ("10.0.0.6",), "203.0.113.1", False),
        ("broker-a", "", ("broker-a",), "broker-a", False),
    ],
)
def test_the_table(bind_address: str, ip1: str, bind: tuple[str, ...], advertise: str, noted: bool) -> None:
    plan = plan_addresses(BrokerSettings(bind_address=bind_address, broker_ip1=ip1), ROUTE)
    assert (plan.bind, plan.advertise, plan.ha_advertise) == (bind, advertise, advertise)
    assert bool(plan.notes) is noted


def test_slaves_may_be_told_another_address() -> None:
    plan = plan_addresses(BrokerSettings(broker_ip1="10.0.0.5", broker_ip2="10.1.0.5"), ROUTE)
    assert (plan.advertise, plan.ha_advertise) == ("10.0.0.5", "10.1.0.5")


def test_everywhere_without_a_name_server_is_commented_on() -> None:
    plan = plan_addresses(BrokerSettings(bind_address="0.0.0.0"), "")
    assert plan.advertise == "127.0.0.1"
    assert "set brokerIP1" in plan.notes[0]


def test_the_address_towards_loopback_is_loopback() -> None:
    assert is_loopback(route_ip(Endpoint("127.0.0.1", 9876)))


@pytest.mark.parametrize(
    ("ip", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::1%lo", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("128.0.0.1", False),
        ("0.0.0.0", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_is_loopback(ip: str, expected: bool) -> None:
    assert is_loopback(ip) is expected
