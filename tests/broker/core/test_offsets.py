"""Offsets: commits, resets that win over late commits, and the table as it is saved."""

from __future__ import annotations

from roquet.broker.core.offsets import Offsets


def make() -> Offsets:
    return Offsets(lambda: 7, version_step=3)


def test_a_commit_is_found_again_and_may_go_back() -> None:
    offsets = make()
    assert offsets.query("g", "t", 0) is None
    offsets.commit("g", "t", 0, 10)
    offsets.commit("g", "t", 0, 4)
    assert offsets.query("g", "t", 0) == 4
    assert offsets.changed


def test_a_reset_wins_over_commits_until_a_pull_has_taken_it() -> None:
    offsets = make()
    offsets.commit("g", "t", 0, 10)
    offsets.order_reset("g", "t", 0, 2)
    offsets.commit("g", "t", 0, 11)
    offsets.commit("g", "t", 1, 5)
    assert offsets.query("g", "t", 0) == 2
    assert offsets.query("g", "t", 1) == 5
    assert offsets.take_reset("g", "t", 0) == 2
    assert offsets.take_reset("g", "t", 0) is None
    offsets.commit("g", "t", 0, 3)
    assert offsets.query("g", "t", 0) == 3


def test_the_version_goes_up_every_so_many_commits() -> None:
    offsets = make()
    for number in range(7):
        offsets.commit("g", "t", 0, number)
    assert offsets.version.counter == 2


def test_the_dump_has_apaches_members_and_loads_again() -> None:
    offsets = make()
    offsets.commit("g", "t", 3, 1)
    offsets.pull_seen("g", "t", 3, 2)
    stored = offsets.dump()
    assert stored["groupTopicMap"] == {"g": ["t"]}
    assert stored["offsetTable"] == {"t@g": {3: 1}}
    assert stored["pullOffsetTable"] == {"t@g": {3: 2}}
    again = make()
    again.load({"offsetTable": {"t@g": {"3": 1}}})
    assert again.query("g", "t", 3) == 1


def test_forgetting_a_topic_or_a_group_leaves_the_others() -> None:
    offsets = make()
    for group in ("g", "h"):
        for topic in ("t", "u"):
            offsets.commit(group, topic, 0, 1)
    offsets.forget_topic("t")
    assert offsets.topics_of("g") == ["u"]
    offsets.forget_group("g")
    assert offsets.groups_of("u") == ["h"]


def test_copying_offsets_makes_an_independent_copy() -> None:
    offsets = make()
    offsets.commit("g", "t", 0, 1)
    offsets.copy("g", "h", "t")
    offsets.commit("g", "t", 0, 2)
    assert offsets.query("h", "t", 0) == 1
