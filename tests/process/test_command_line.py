"""The command line as people use it: what it prints, how it ends, and what it says when it cannot start.

A mistake of the operator is one sentence on stderr that says what to do, and status 1; never a traceback.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from roquet.client import connect
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.requests.pull import LitePull, PullFlag
from roquet.wire.requests.send import SendV2
from roquet.wire.row import row_of
from tests.peers import roquet
from tests.peers.child import Child
from tests.peers.jars import ROOT, MissingTool
from tests.peers.ports import accepts, free_broker_port, free_port
from tests.process.rude import Rude

pytestmark = pytest.mark.process

TIMEOUT_S = 120.0


def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself."""
    return subprocess.run(
        [*roquet.program(), *words], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def broker_words(store: Path, port: int, *more: str) -> list[str]:
    settings = {"storePathRootDir": str(store), "listenPort": str(port), **roquet.ANY_DISK}
    sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ["broker", *sets, *more]


def start(words: Sequence[str], log: Path) -> Child:
    """Start a command and wait for its ready line, in the buffering that users get."""
    process = Child("roquet " + words[0], [*roquet.program(), *words], log)
    try:
        process.wait_until(lambda: roquet.is_ready(process.text()), "its line `ready`", TIMEOUT_S)
    except BaseException:
        process.kill()
        raise
    return process


def ready_addresses(process: Child) -> list[str]:
    (line,) = [line for line in process.text().splitlines() if line.startswith("ready")]
    return re.findall(r"[\d.]+:\d+", line)


def refused(words: Sequence[str]) -> str:
    """Run a command that cannot start and return the sentence that it leaves."""
    done = run(words)
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr and not roquet.is_ready(done.stdout)
    return done.stderr


def test_version() -> None:
    done = run(["version"])
    assert done.returncode == 0 and not done.stderr
    assert re.match(r"roquet \d+\.\d+\.\d+ ", done.stdout)
    assert re.search(r"frame +(compiled|plain Python)", done.stdout)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["up", "broker", "namesrv"])
def test_a_command_says_where_it_listens_and_stops_cleanly(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    store, names_port, port = tmp_path / "store", free_port(), free_broker_port()
    words = {
        "up": ["up", "--store", str(store), "--namesrv-port", str(names_port), "--broker-port", str(port)],
        "broker": broker_words(store, port),
        "namesrv": ["namesrv", "--port", str(names_port), "--set", f"kvConfigPath={tmp_path / 'kv.json'}"],
    }[command]
    names = [f"127.0.0.1:{names_port}"] if command != "broker" else []
    broker = [f"127.0.0.1:{port}", f"127.0.0.1:{port - 2}"] if command != "namesrv" else []
    process = start(words, tmp_path / "out")
    try:
        assert ready_addresses(process) == names + broker
        assert all(map(accepts, names + broker))
        assert (store / "abort").exists() == bool(broker)
        assert process.stop(number=number) == 0
        assert not (store / "abort").exists()
        assert "Traceback" not in process.text()
    finally:
        process.kill()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    port = free_broker_port()
    process = start(broker_words(tmp_path / "first", port), tmp_path / "out")
    try:
        said = refused(broker_words(tmp_path / "second", port))
        assert f"127.0.0.1:{port}" in said
        assert not (tmp_path / "second" / "abort").exists()
        said = refused(["up", "--store", str(tmp_path / "third"), "--namesrv-port", str(port)])
        assert f"127.0.0.1:{port}" in said
        said = refused(["namesrv", "--port", str(port), "--set", f"kvConfigPath={tmp_path / 'kv.json'}"])
        assert f"127.0.0.1:{port}" in said
        assert process.stop() == 0
    finally:
        process.kill()


def test_a_store_that_another_process_holds_is_left_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    process = start(broker_words(store, free_broker_port()), tmp_path / "out")
    try:
        assert str(store) in refused(broker_words(store, free_broker_port()))
        assert (store / "abort").exists()
        assert process.stop() == 0
    finally:
        process.kill()
    # A log of its own: in the other one the line `ready` is there already.
    assert start(broker_words(store, free_broker_port()), tmp_path / "out-again").stop() == 0


def test_a_bad_value_is_named_with_file_line_and_range(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("# ours\nbrokerName=a\nlistenPort=70000\n\nflushDiskType = SOMETIMES\nbrokerRole=SLAVE\n")
    said = refused([*broker_words(tmp_path / "store", 1)[:3], "-c", str(conf)])
    assert f"{conf}, line 3: listenPort=70000" in said and "65534" in said
    assert f"{conf}, line 5: flushDiskType=SOMETIMES" in said and "SYNC_FLUSH" in said
    assert "brokerRole=SLAVE" in said
    assert not (tmp_path / "store").exists()
    assert "cannot be read" in refused(["broker", "-c", str(tmp_path / "absent.conf")])
    assert "--set nonsense: expected key=value" in refused(["broker", "--set", "nonsense"])
    assert "mappedFileSizeCommitLog=1" in refused(["broker", "--set", "mappedFileSizeCommitLog=1"])


def test_an_unknown_key_is_a_warning_with_the_nearest_known_one(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("flushDiskTipe=SYNC_FLUSH\n")
    process = start(
        [*broker_words(tmp_path / "store", free_broker_port()), "-c", str(conf)], tmp_path / "out"
    )
    try:
        (line,) = [line for line in process.text().splitlines() if "flushDiskTipe" in line]
        assert "warning" in line and f"{conf}, line 1" in line and "flushDiskType" in line
    finally:
        process.stop()


def test_the_broker_conf_of_apaches_distribution_is_read_as_it_is(tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text(
        "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\n"
        "fileReservedTime = 48\nbrokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n"
    )
    process = start(
        [*broker_words(tmp_path / "store", free_broker_port()), "-c", str(conf)], tmp_path / "out"
    )
    try:
        (address, _) = ready_addresses(process)
        with Rude(address) as peer:
            (answer,) = peer.ask([Frame(26)])
        told = dict(line.split("=", 1) for line in answer.body.decode().splitlines())
        assert (told["brokerName"], told["deleteWhen"], told["fileReservedTime"]) == ("broker-a", "04", "48")
        assert "warning" not in process.text() and "WARN" not in process.text()
    finally:
        process.stop()


def test_broker_ip_without_bind_address_listens_there_too_and_says_so(tmp_path: Path) -> None:
    port = free_broker_port()
    process = start(broker_words(tmp_path / "store", port, "--set", "brokerIP1=127.0.0.5"), tmp_path / "out")
    try:
        assert {f"127.0.0.5:{port}", f"127.0.0.1:{port}"} <= set(ready_addresses(process))
        assert accepts(f"127.0.0.5:{port}") and accepts(f"127.0.0.1:{port}")
        assert not accepts(f"127.0.0.6:{port}")
        (note,) = [line for line in process.text().splitlines() if "brokerIP1=127.0.0.5" in line]
        assert "bindAddress" in note
    finally:
        process.stop()


def test_bind_listens_there_and_nowhere_else(tmp_path: Path) -> None:
    names_port, port = free_port(), free_broker_port()
    words = ["up", "--store", str(tmp_path / "store"), "--bind", "127.0.0.7"]
    words += ["--namesrv-port", str(names_port), "--broker-port", str(port)]
    process = start(words, tmp_path / "out")
    try:
        assert ready_addresses(process) == [f"127.0.0.7:{each}" for each in (names_port, port, port - 2)]
        assert not accepts(f"127.0.0.1:{port}") and not accepts(f"127.0.0.1:{names_port}")

        async def main() -> None:
            async with connect(f"127.0.0.7:{names_port}") as client:
                await client.send("t", b"x")
                route = await client.route("TBW102")
                assert route.brokers[0].broker_addrs == {0: f"127.0.0.7:{port}"}

        asyncio.run(main())
    finally:
        process.stop()


def test_the_fast_port_takes_sends_and_no_pulls(tmp_path: Path) -> None:
    process = start(broker_words(tmp_path / "store", free_broker_port()), tmp_path / "out")
    send = Frame(row_of(SendV2).code, ext=SendV2("p", "t", "TBW102", 4, 0, 0, 0, 0).encode(), body=b"x")
    asked = LitePull("g", "t", 0, 0, 32, int(PullFlag.SUBSCRIPTION), 0, 0, 0, "*", "TAG")
    pull = Frame(row_of(LitePull).code, ext=asked.encode())
    try:
        main, fast = ready_addresses(process)
        with Rude(fast) as peer:
            codes = [answer.code for answer in peer.ask([send, pull, pull._replace(code=11)])]
            assert codes == [Code.SUCCESS, *[Code.REQUEST_CODE_NOT_SUPPORTED] * 2]
        with Rude(main) as peer:
            assert [answer.code for answer in peer.ask([send, pull])] == [Code.SUCCESS] * 2
    finally:
        process.stop()


def test_administration_from_another_address_is_refused(tmp_path: Path) -> None:
    address = "10.11.12.13"
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("ip") is None:
        raise MissingTool("`unshare` and `ip` are not on the PATH: install util-linux and iproute2")
    # Ordinary users get a network namespace through a user namespace, in which they are root.
    own = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = f'ip link set lo up && ip address add {address}/32 dev lo && exec "$@"'
    python = [sys.executable, "-m", "tests.process.foreign", str(tmp_path), address]
    done = subprocess.run(
        [unshare, "--net", *own, "sh", "-c", script, "sh", *python],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    here, there = said["127.0.0.1"], said[address]
    assert here.pop("SEND") == there.pop("SEND") == Code.SUCCESS
    served = [name for name, code in here.items() if code != Code.REQUEST_CODE_NOT_SUPPORTED]
    assert len(served) > 10
    assert {there[name] for name in served} == {Code.NO_PERMISSION}
    assert Code.NO_PERMISSION not in here.values()
