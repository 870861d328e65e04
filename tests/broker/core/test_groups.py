"""The table of groups: making them on first use, forbidding topics, saving and loading."""

from __future__ import annotations

from roquet.broker.core.groups import Groups
from roquet.model.group import Group


def make(auto_create: bool = True) -> tuple[Groups, list[int]]:
    saves: list[int] = []
    return Groups(auto_create, lambda: 5, lambda: saves.append(1)), saves


def test_a_group_is_made_on_first_use_unless_that_is_off() -> None:
    groups, saves = make()
    assert groups.find("g") == Group(group_name="g")
    assert groups.find("g") is groups.get("g")
    assert len(saves) == 1
    strict, _ = make(auto_create=False)
    assert strict.find("g") is None
    assert strict.find("CID_RMQ_SYS_X") is not None


def test_an_illegal_name_is_never_made() -> None:
    groups, saves = make()
    for name in ("", " ", "../x", "a\0b", "g" * 121, "ü"):
        assert groups.find(name) is None
    assert saves == []


def test_forbidding_a_topic_is_remembered_and_taken_back() -> None:
    groups, saves = make()
    assert groups.may_read("g", "t")
    groups.set_may_read("g", "t", False)
    assert not groups.may_read("g", "t")
    assert groups.may_read("g", "other")
    again, _ = make()
    again.load(groups.dump())
    assert not again.may_read("g", "t")
    again.set_may_read("g", "t", True)
    assert again.forbidden == {}
    groups.set_may_read("g", "t", False)
    assert len(saves) == 1


def test_deleting_a_group_forgets_its_forbidden_topics_too() -> None:
    groups, _ = make()
    groups.find("g")
    groups.set_may_read("g", "t", False)
    assert groups.delete("g")
    assert not groups.delete("g")
    assert groups.may_read("g", "t")


def test_settings_of_apache_load_with_what_we_do_not_know() -> None:
    groups, _ = make()
    groups.load(
        {
            "dataVersion": {"counter": 3, "stateVersion": 0, "timestamp": 9},
            "forbiddenTable": {},
            "subscriptionGroupTable": {
                "g": {
                    "groupName": "g",
                    "retryMaxTimes": 3,
                    "groupRetryPolicy": {"type": "CUSTOMIZED"},
                    "x": 1,
                },
                "../x": {"groupName": "../x"},
            },
        }
    )
    found = groups.get("g")
    assert found is not None and found.retry_max_times == 3
    assert groups.version.counter == 3
    assert groups.get("../x") is None
