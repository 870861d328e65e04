"""Settings of a running broker: shown, changed by the allow-list, saved before they are in force."""

from __future__ import annotations

import json

import pytest

from roquet.wire.requests.settings import GetSettings, UpdateSettings
from tests.broker.handlers.desk import CONFIG_PATH, Desk


def test_all_settings_are_shown_as_sorted_lines() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            shown = await desk.ask(GetSettings())
            lines = shown.body.decode().splitlines()
            assert lines == sorted(lines)
            assert "brokerName=broker-a" in lines
            assert "flushDiskType=ASYNC_FLUSH" in lines
            version = json.loads(shown.ext["version"])
            assert list(version) == ["counter", "stateVersion", "timestamp"]
            assert version["counter"] == 0

        desk.run(scenario())


def test_a_change_is_saved_applied_and_shown() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            desk.disk.write_file(CONFIG_PATH, b"# mine\nbrokerName=broker-a\nbrokerPermission=6\n")
            answer = await desk.ask(UpdateSettings(), b"brokerPermission=4\nlongPollingEnable=false\n")
            assert (answer.code, answer.remark) == (0, "")
            saved = desk.disk.read_file(CONFIG_PATH)
            assert saved == b"# mine\nbrokerName=broker-a\nbrokerPermission=4\nlongPollingEnable=false\n"
            ((broker, _),) = desk.applied
            assert (broker.permission, broker.long_polling) == (4, False)
            shown = await desk.ask(GetSettings())
            assert b"brokerPermission=4\n" in shown.body
            assert json.loads(shown.ext["version"])["counter"] == 1

        desk.run(scenario())


def test_the_same_value_changes_nothing() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            assert (await desk.ask(UpdateSettings(), b"longPollingEnable=true\n")).code == 0
            assert (await desk.ask(UpdateSettings())).code == 0
            assert desk.applied == []
            assert not desk.disk.exists(CONFIG_PATH)

        desk.run(scenario())


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"brokerConfigPath=x\n", 16),
        (b"rocketmqHome=/tmp;reboot\n", 16),
        (b"filterServerNums=1\n", 16),
        (b"storePathRootDir=/elsewhere\n", 16),
        (b"noSuchKey=1\n", 16),
        (b"brokerPermission=9\n", 16),
        (b"longPollingEnable=false\nbrokerPermission=nonsense\n", 16),
        (b"a=\\u12\n", 1),
        (b"\xff\xfe", 1),
    ],
)
def test_what_may_not_change_is_refused_whole(body: bytes, code: int) -> None:
    with Desk() as desk:

        async def scenario() -> None:
            answer = await desk.ask(UpdateSettings(), body)
            assert answer.code == code
            assert answer.remark
            assert desk.applied == []
            assert not desk.disk.exists(CONFIG_PATH)

        desk.run(scenario())


def test_a_change_that_cannot_be_saved_is_not_in_force() -> None:
    with Desk() as desk:

        async def scenario() -> None:
            desk.disk.write_file(CONFIG_PATH, b"\xff not a text")
            answer = await desk.ask(UpdateSettings(), b"brokerPermission=4\n")
            assert answer.code == 1
            assert "nothing was changed" in answer.remark
            assert desk.applied == []
            assert b"brokerPermission=6\n" in (await desk.ask(GetSettings())).body

        desk.run(scenario())
