"""Who the foreign clients' programs are pointed at: a cluster named by the environment, or one that we start.

`ROQUET_TEST_TARGET_NAMESRV=host:port` names a running name server (an Apache one, say); otherwise
`roquet up` runs on free loopback ports for as long as the block lasts. `built` runs a build command once for
each state of its sources. Knows processes and files only; what the programs check is theirs.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.peers.child import Child
from tests.peers.ports import free_broker_port, free_port

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
READY_TIMEOUT_S = 120.0


@contextmanager
def target(folder: Path) -> Iterator[str]:
    """Give the address of a name server; a cluster that has to be started keeps its files in `folder`."""
    named = os.environ.get("ROQUET_TEST_TARGET_NAMESRV")
    if named:
        yield named
        return
    names_port, broker_port = free_port(), free_broker_port()
    command = [str(Path(sys.executable).with_name("roquet")), "up", "--store", str(folder / "store")]
    command += ["--namesrv-port", str(names_port), "--broker-port", str(broker_port)]
    with Child("roquet up", command, folder / "roquet.out") as cluster:
        cluster.wait_until(lambda: _ready(cluster.text()), "its line `ready`", READY_TIMEOUT_S)
        yield f"127.0.0.1:{names_port}"


def _ready(text: str) -> bool:
    return any(line.startswith("ready") for line in text.splitlines())


def required(program: str) -> str:
    """Find a program that the tests cannot do without; its absence is an error, not a reason to skip."""
    found = shutil.which(program)
    if found is None:
        raise RuntimeError(f"{program} is not on the PATH; install it, or leave its marker out with -m")
    return found


def built(name: str, sources: Sequence[Path], build: Callable[[], None]) -> None:
    """Call `build` unless it succeeded before with exactly these source bytes."""
    digest = hashlib.sha256()
    for source in sorted(sources):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    stamp = CACHE / name / "built.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    build()
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest.hexdigest())


def run(command: Sequence[str], folder: Path, timeout_s: float) -> str:
    """Run a command and return what it printed; raise with its output when it fails."""
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False
    )
    text = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {text[-3000:]}")
    return text
