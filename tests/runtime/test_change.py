"""Showing and changing settings: the allow-list, all or nothing, and no secrets."""

from __future__ import annotations

import pytest

from roquet.runtime.change import ChangeRefused, change_broker, change_names, render_broker, render_names
from roquet.runtime.config import load_broker
from roquet.runtime.properties import BadProperties
from roquet.runtime.settings import BrokerSettings, Endpoint, NamesSettings
from roquet.store.settings import StoreSettings

BROKER = BrokerSettings(namesrv_addresses=(Endpoint("127.0.0.1", 9876),))
STORE = StoreSettings("/data/store")


def shown(text: str) -> dict[str, str]:
    lines = text.splitlines()
    assert lines == sorted(lines, key=lambda line: line.partition("=")[0])
    return dict(line.split("=", 1) for line in lines)


def test_every_key_is_shown_with_its_value_or_apaches_default() -> None:
    values = shown(render_broker(BROKER, STORE))
    assert values["namesrvAddr"] == "127.0.0.1:9876"
    assert values["storePathRootDir"] == "/data/store"
    assert values["flushDiskType"] == "ASYNC_FLUSH"
    assert values["deleteWhen"] == "04"
    assert values["autoCreateTopicEnable"] == "true"
    assert values["sendMessageThreadPoolNums"] == "2"
    assert values["storeType"] == "default"
    assert values["messageDelayLevel"].startswith("1s 5s 10s")
    assert "storePathCommitLog" not in values  # Java shows no key that is not set
    assert len(values) >= 487
    assert shown(render_names(NamesSettings()))["listenPort"] == "9876"


def test_secrets_in_a_file_are_never_shown() -> None:
    secret = "s3cret-s3cret"
    sets = [f"metricsGrpcExporterHeader=token:{secret}", f"innerClientAuthenticationCredentials={secret}"]
    config = load_broker("", {}, [*sets, f"initAuthenticationUser={secret}"])
    assert secret not in render_broker(config.broker, config.store)
    assert not any(secret in note.text for note in config.notes)


def test_settings_on_the_allow_list_change_in_both_parts() -> None:
    text = "brokerPermission=4\nfileReservedTime = 24\nregisterNameServerPeriod=5\n"
    broker, store, changed = change_broker(BROKER, STORE, text)
    assert (broker.permission, broker.register_period_ms, store.file_reserved_hours) == (4, 10_000, 24)
    assert changed == {"brokerPermission": "4", "fileReservedTime": "24", "registerNameServerPeriod": "10000"}
    assert BROKER.permission == 6


def test_the_whole_configuration_as_shown_changes_nothing() -> None:
    assert change_broker(BROKER, STORE, render_broker(BROKER, STORE)) == (BROKER, STORE, {})
    names = NamesSettings()
    assert change_names(names, render_names(names)) == (names, {})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("storePathRootDir=/elsewhere", "cannot change while running"),
        ("namesrvAddr=evil:9876", "cannot change while running"),
        ("brokerConfigPath=/etc/passwd", "cannot change while running"),
        ("adminFromAnywhere=true", "cannot change while running"),
        ("bindAddress=0.0.0.0", "cannot change while running"),
        ("flushDiskType=SYNC_FLUSH", "cannot change while running"),
        ("brokerPermission=9", "'9' is not possible"),
        ("autoCreateTopicEnable=", "'' is not possible"),
        ("sendMessageThreadPoolNums=64", "has no effect"),
        ("rocketmqHome=/x", "has no effect"),
        ("configBlackList=", "has no effect"),
        ("aclEnable=true", "not supported yet"),
        ("fileReservedTyme=1", "unknown key; did you mean fileReservedTime?"),
    ],
)
def test_everything_else_is_refused_with_a_reason_and_changes_nothing(line: str, reason: str) -> None:
    with pytest.raises(ChangeRefused) as caught:
        change_broker(BROKER, STORE, f"fileReservedTime=24\n{line}\n")
    assert caught.value.key == line.partition("=")[0]
    assert caught.value.reason.startswith(reason)
    assert caught.value.allowed


def test_unreadable_text_is_refused() -> None:
    with pytest.raises(BadProperties):
        change_broker(BROKER, STORE, "a=\\u12")


def test_name_server_settings_change_likewise() -> None:
    names, changed = change_names(NamesSettings(), "orderMessageEnable=true")
    assert names.order_message_enable and changed == {"orderMessageEnable": "true"}
    with pytest.raises(ChangeRefused):
        change_names(names, "kvConfigPath=/etc/passwd")
