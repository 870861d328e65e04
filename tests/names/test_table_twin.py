"""The tables against a naive twin: random lives of three brokers, compared after every step.

The twin keeps flat facts, scans all of them each time and shares no code with `names.table`.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from roquet.model.topic import DataVersion, Topic
from roquet.names.expiry import Place
from roquet.names.table import Joining, Leaving, Rules, Table, Verdict
from roquet.wire.bodies.registration import Registration

TIMEOUT_MS = 100


class Register(NamedTuple):
    name: str
    broker_id: int
    address: str
    link: int
    counter: int
    state: int
    perm: int
    topics: frozenset[str]


class Unregister(NamedTuple):
    name: str
    address: str


class CloseLink(NamedTuple):
    link: int


class Wait(NamedTuple):
    ms: int


class Wipe(NamedTuple):
    name: str


class Delete(NamedTuple):
    topic: str


Step = Register | Unregister | CloseLink | Wait | Wipe | Delete

names = st.sampled_from(["a", "b"])
addresses = st.sampled_from(["h:1", "h:2", "h:3"])
topics = st.sampled_from(["t", "u", "v", "w"])
small = st.integers(0, 2)
registering = st.builds(
    Register,
    names,
    small,
    addresses,
    small,
    small,
    small,
    st.sampled_from([2, 4, 6]),
    st.frozensets(topics, min_size=1) | st.just(frozenset()),
)
others: st.SearchStrategy[Step] = st.one_of(
    st.builds(Unregister, names, addresses),
    st.builds(CloseLink, small),
    st.builds(Wait, st.sampled_from([20, 50, 51])),
    st.builds(Wipe, names),
    st.builds(Delete, topics),
)


class Twin:
    """Facts in flat lists, searched from one end to the other."""

    def __init__(self) -> None:
        self.now = 0
        self.ids: list[tuple[str, int, str]] = []  # name, id, address
        self.queues: list[tuple[str, str, int]] = []  # topic, name, perm
        self.heard: list[
            tuple[str, int, int, tuple[int, int], str]
        ] = []  # address, when, link, version, name

    def apply(self, step: Step) -> None:
        match step:
            case Register():
                self.register(step)
            case Unregister(name, address):
                self.leave(name, address)
            case CloseLink(link):
                for address, _, over, _, name in list(self.heard):
                    if over == link:
                        self.leave(name, address)
            case Wait(ms):
                self.now += ms
                for address, when, _, _, name in list(self.heard):
                    if when + TIMEOUT_MS < self.now:
                        self.leave(name, address)
            case Wipe(name):
                self.queues = [(t, n, p & 4 if n == name else p) for t, n, p in self.queues]
            case Delete(topic):
                self.queues = [each for each in self.queues if each[0] != topic]

    def register(self, step: Register) -> None:
        held = [fact for fact in self.ids if fact[:2] == (step.name, step.broker_id)]
        for _, _, holder in held:
            states = [version[1] for address, _, _, version, _ in self.heard if address == holder]
            if holder != step.address and states and states[0] > step.state:
                self.forget_ids(step)
                self.heard = [fact for fact in self.heard if fact[0] != step.address]
                return
        if not held and len(step.topics) == 1:
            return
        self.forget_ids(step)
        self.ids = [fact for fact in self.ids if fact[:2] != (step.name, step.broker_id)]
        self.ids.append((step.name, step.broker_id, step.address))
        known = [version for address, _, _, version, _ in self.heard if address == step.address]
        is_changed = not held or known != [(step.counter, step.state)]
        if step.broker_id == min(each for name, each, _ in self.ids if name == step.name):
            for topic in step.topics:
                if is_changed or not any(fact[:2] == (topic, step.name) for fact in self.queues):
                    self.queues = [fact for fact in self.queues if fact[:2] != (topic, step.name)]
                    self.queues.append((topic, step.name, step.perm))
        self.heard = [fact for fact in self.heard if fact[0] != step.address]
        self.heard.append((step.address, self.now, step.link, (step.counter, step.state), step.name))

    def forget_ids(self, step: Register) -> None:
        """An address has one id within a name."""
        self.ids = [
            fact
            for fact in self.ids
            if fact[0] != step.name or fact[2] != step.address or fact[1] == step.broker_id
        ]

    def leave(self, name: str, address: str) -> None:
        self.heard = [fact for fact in self.heard if fact[0] != address]
        self.ids = [fact for fact in self.ids if (fact[0], fact[2]) != (name, address)]
        if not any(fact[0] == name for fact in self.ids):
            self.queues = [fact for fact in self.queues if fact[1] != name]


def apply(table: Table, step: Step, now: int) -> None:
    match step:
        case Register():
            who = Joining("c", step.name, step.broker_id, step.address, "", step.link, timeout_ms=TIMEOUT_MS)
            listed = {topic: Topic(topic_name=topic, perm=step.perm) for topic in sorted(step.topics)}
            done = table.register(who, Registration(DataVersion(step.counter, step.state), listed), now)
            assert done.verdict is not Verdict.TOO_MANY
        case Unregister(name, address):
            table.unregister(Leaving("c", name, address))
        case CloseLink(link):
            table.close_link(link)
        case Wait():
            table.expire(now)
        case Wipe(name):
            table.wipe_write(name)
        case Delete(topic):
            table.delete_topic(topic)


def compare(table: Table, twin: Twin) -> None:
    brokers = table.routes.brokers
    filed = {(name, each, at) for name, it in brokers.items() for each, at in it.broker_addrs.items()}
    assert filed == set(twin.ids)
    assert set(table.routes.clusters.get("c", ())) == {name for name, _, _ in twin.ids}
    for topic in "tuvw":
        expected = {(name, perm) for each, name, perm in twin.queues if each == topic}
        route = table.route(topic)
        assert {(each.broker_name, each.perm) for each in (route.queues if route else ())} == expected
        assert (route is None) == (not expected)
        for name in "ab":
            served = any(fact[:2] == (topic, name) for fact in twin.queues)
            assert (topic in table.routes.topics_of(name)) == served
    for address in ("h:1", "h:2", "h:3"):
        versions = [version for at, _, _, version, _ in twin.heard if at == address]
        found = table.version_of(Place("c", address))
        assert ([] if found is None else [(found.counter, found.state_version)]) == versions


@given(st.lists(st.one_of(registering, registering, others), min_size=10, max_size=60))
def test_tables_and_twin_agree(life: list[Step]) -> None:
    table, twin = Table(Rules()), Twin()
    for step in life:
        twin.apply(step)
        apply(table, step, twin.now)
        compare(table, twin)
