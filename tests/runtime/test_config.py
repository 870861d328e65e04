"""Loading settings: precedence, notes for people, and problems with place and remedy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roquet.runtime.config import BadSettings, Severity, load_broker, load_names
from roquet.runtime.settings import Endpoint, Role
from roquet.store.settings import FlushMode


def conf(folder: Path, text: str) -> str:
    path = folder / "broker.conf"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_defaults_are_apaches() -> None:
    broker, store, notes = load_broker("", {})
    assert (broker.cluster_name, broker.listen_port, broker.fast_port, broker.ha_port) == (
        "DefaultCluster",
        10911,
        10909,
        10912,
    )
    assert (broker.role, broker.permission, broker.config_path) == (Role.ASYNC_MASTER, 6, "")
    assert store.root_dir == os.path.expanduser("~/store")
    assert store.physical_memory_bytes > 0
    assert broker.broker_name
    assert notes == ()


def test_a_typical_broker_conf(tmp_path: Path) -> None:
    path = conf(
        tmp_path,
        "# Apache's sample\nbrokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\n"
        "deleteWhen = 04\nfileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = SYNC_FLUSH\n"
        "namesrvAddr=127.0.0.1:9876;ns-b:9877\nstorePathRootDir=/data/rmq\nlistenPort=20911\nbrokerIP2=\n",
    )
    broker, store, notes = load_broker(path, {})
    assert broker.broker_name == "broker-a"
    assert broker.namesrv_addresses == (Endpoint("127.0.0.1", 9876), Endpoint("ns-b", 9877))
    assert (broker.listen_port, broker.fast_port, broker.ha_port) == (20911, 20909, 20912)
    assert broker.config_path == path
    assert store.flush_mode is FlushMode.SYNC
    assert (store.file_reserved_hours, store.log_dir) == (48, "/data/rmq/commitlog")
    assert notes == ()


def test_later_sources_win(tmp_path: Path) -> None:
    path = conf(tmp_path, "defaultTopicQueueNums=1\nnamesrvAddr=file:1\n")
    env = {"ROQUET_DEFAULT_TOPIC_QUEUE_NUMS": "2", "NAMESRV_ADDR": "env:1"}

    def queues(env: dict[str, str], sets: list[str], overrides: dict[str, str]) -> int:
        return load_broker(path, env, sets, overrides).broker.default_topic_queue_nums

    assert queues({}, [], {}) == 1
    assert queues(env, [], {}) == 2
    assert queues(env, ["defaultTopicQueueNums=3"], {}) == 3
    assert queues(env, ["defaultTopicQueueNums=3"], {"defaultTopicQueueNums": "4"}) == 4
    assert load_broker(path, env).broker.namesrv_addresses == (Endpoint("file", 1),)
    assert load_broker("", env).broker.namesrv_addresses == (Endpoint("env", 1),)


@pytest.mark.parametrize("name", ["ROQUET_FLUSH_DISK_TYPE", "ROQUET_flushDiskType", "roquet_flushdisktype"])
def test_environment_names_match_in_any_spelling(name: str) -> None:
    assert load_broker("", {name: "SYNC_FLUSH"}).store.flush_mode is FlushMode.SYNC


def test_environment_of_other_uses_is_left_alone() -> None:
    env = {"ROQUET_LOG": "debug", "ROQUET_NO_UVLOOP": "1", "ROQUET_PURE": "1", "ROQUET_KV_CONFIG_PATH": "/k"}
    assert load_broker("", env).notes == ()
    (note,) = load_broker("", {"ROQUET_FLUSH_DISK_TIPE": "x"}).notes
    assert note.severity is Severity.WARNING
    assert (
        note.text == "environment ROQUET_FLUSH_DISK_TIPE: no such setting; did you mean ROQUET_flushDiskType?"
    )


def test_keys_without_effect_are_mentioned_and_unknown_ones_are_warned_about(tmp_path: Path) -> None:
    path = conf(
        tmp_path, "sendMessageThreadPoolNums=16\n\nfileReservedTyme=48\nzzz=1\nbrokerPermission=4\nzzz=2"
    )
    broker, _, notes = load_broker(path, {})
    assert broker.permission == 4
    texts = {note.text: note.severity for note in notes}
    reason = "one event loop does the work: there are no thread pools and no queues before them"
    hint = "; did you mean fileReservedTime?"
    assert texts == {
        f"{path}, line 1: sendMessageThreadPoolNums has no effect: {reason}": Severity.INFO,
        f"{path}, line 3: unknown key fileReservedTyme is ignored{hint}": Severity.WARNING,
        f"{path}, line 6: zzz stands on line 4 too; the last one counts": Severity.WARNING,
        f"{path}, line 6: unknown key zzz is ignored": Severity.WARNING,
    }


def test_all_problems_are_told_at_once_with_place_value_and_range(tmp_path: Path) -> None:
    path = conf(tmp_path, "listenPort=99999\nautoCreateTopicEnable=ture\n")
    with pytest.raises(BadSettings) as caught:
        load_broker(path, {"ROQUET_BROKERNAME": "a/b"}, ["nothing"], {"deleteWhen": "99"})
    assert caught.value.problems == (
        "--set nothing: expected key=value",
        f"{path}, line 1: listenPort=99999 is not possible; allowed: a whole number from 3 to 65534",
        f"{path}, line 2: autoCreateTopicEnable=ture is not possible; allowed: true, false",
        "environment ROQUET_BROKERNAME: brokerName=a/b is not possible; "
        "allowed: 1 to 127 of the characters a-z A-Z 0-9 _ - % |",
        "command line: deleteWhen=99 is not possible; allowed: hours from 00 to 23, several separated by ;",
    )


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("storeType=defaultRocksDB", "RocksDB"),
        ("enableDLegerCommitLog=true", "DLedger"),
        ("enableControllerMode=true", "controller"),
        ("brokerRole=SLAVE", "replication"),
        ("minInSyncReplicas=2", "replication"),
        ("aclEnable=true", "access control"),
        ("authenticationEnabled=true", "access control"),
        ("useTLS=true", "TLS"),
        ("messageStorePlugIn=a.b.C", "plug-ins"),
    ],
)
def test_what_would_do_less_than_asked_is_refused_by_name(line: str, missing: str) -> None:
    with pytest.raises(BadSettings, match=f"{line}: not supported yet: .*{missing}"):
        load_broker("", {}, [line])


def test_refused_keys_with_their_ordinary_value_are_fine() -> None:
    assert load_broker("", {}, ["storeType=default", "aclEnable=FALSE", "messageStorePlugIn="]).notes == ()


def test_a_sync_master_and_a_masters_id_are_commented_on() -> None:
    broker, _, notes = load_broker("", {}, ["brokerRole=SYNC_MASTER", "brokerId=3"])
    assert (broker.role, broker.broker_id) == (Role.SYNC_MASTER, 0)
    assert [note.severity for note in notes] == [Severity.WARNING, Severity.WARNING]


def test_a_missing_or_broken_file_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"absent\.conf: cannot be read: No such file"):
        load_broker(str(tmp_path / "absent.conf"), {})
    with pytest.raises(BadSettings, match="line 1"):
        load_broker(conf(tmp_path, "a=\\uXYZ"), {})
    (tmp_path / "latin").write_bytes(b"a=\xe9")
    with pytest.raises(BadSettings, match="latin: .*decode"):
        load_broker(str(tmp_path / "latin"), {})


def test_name_server_settings(tmp_path: Path) -> None:
    path = conf(
        tmp_path, "listenPort=19876\nkvConfigPath=/k.json\norderMessageEnable=true\nserverWorkerThreads=8\n"
    )
    names, notes = load_names(path, {"ROQUET_FLUSH_DISK_TYPE": "SYNC_FLUSH"})
    assert (names.listen_port, names.kv_config_path, names.order_message_enable) == (19876, "/k.json", True)
    assert names.config_path == path
    assert [note.severity for note in notes] == [Severity.INFO]
    with pytest.raises(BadSettings, match="controller"):
        load_names("", {}, ["enableControllerInNamesrv=true"])
    assert load_names("", {}).names.listen_port == 9876


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_file_gives_settings_or_one_kind_of_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.conf"
    path.write_text(text, encoding="utf-8", errors="replace")
    try:
        load_broker(str(path), {})
    except BadSettings as error:
        assert error.problems
