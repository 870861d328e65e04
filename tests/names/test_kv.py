"""The KV table survives restarts, crashes, damage and full disks."""

from __future__ import annotations

import pytest

from roquet.names import kv
from roquet.names.kv import KeyValues, TableFull
from roquet.sim.world import World

PATH = "/home/namesrv/kvConfig.json"


def loaded(world: World, path: str = PATH) -> KeyValues:
    values = KeyValues(world.disk("n"), path)
    values.load()
    return values


def test_values_are_kept_in_apaches_form() -> None:
    with World(1) as world:
        values = loaded(world)
        values.put("ORDER_TOPIC_CONFIG", "tö", "broker-a:4")
        values.put("other", "k", "v")
        values.delete("other", "k")
        values.delete("other", "not there")
        saved = world.disk("n").read_file(PATH)
        assert saved == '{"configTable":{"ORDER_TOPIC_CONFIG":{"tö":"broker-a:4"},"other":{}}}'.encode()
        again = loaded(world)
        assert again.get("ORDER_TOPIC_CONFIG", "tö") == "broker-a:4"
        assert (again.get("other", "k"), again.namespace("other"), again.namespace("none")) == (
            None,
            {},
            None,
        )


def test_a_stored_value_survives_a_power_cut() -> None:
    for seed in range(20):
        with World(seed) as world:
            values = loaded(world)
            for number in range(3):
                values.put("n", "k", str(number))
            world.power_cut("n")
            world.power_on("n")
            assert loaded(world).get("n", "k") == "2"


def test_a_damaged_file_is_set_aside_and_the_text_before_it_used() -> None:
    with World(1) as world:
        disk, values = world.disk("n"), loaded(world)
        values.put("n", "k", "old")
        values.put("n", "k", "new")
        disk.write_file(PATH, b'{"configTable":{"n"')
        again = loaded(world)
        assert again.get("n", "k") == "old"
        assert disk.read_file(PATH + ".damaged") == b'{"configTable":{"n"'
        again.put("n", "k", "newer")
        assert loaded(world).get("n", "k") == "newer"


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"configTable":{"n":{"k":5}}}', b"\xff"])
def test_damage_without_a_backup_is_an_empty_table(damage: bytes) -> None:
    with World(1) as world:
        world.disk("n").make_dirs("/home/namesrv")
        world.disk("n").write_file(PATH, damage)
        assert loaded(world).namespace("n") is None


def test_without_a_path_nothing_is_kept() -> None:
    with World(1) as world:
        values = loaded(world, "")
        values.put("n", "k", "v")
        assert values.get("n", "k") == "v"
        assert loaded(world, "").get("n", "k") is None


def test_the_table_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv, "TABLE_BYTES_MAX", 100)
    with World(1) as world:
        values = loaded(world)
        values.put("n", "k", "v")
        with pytest.raises(TableFull):
            values.put("n", "k", "v" * 100)
        assert values.get("n", "k") == "v"
