"""The Node client ali-ons (compat/node) sends to and reads from a cluster and checks what comes back.

Its packages are installed once, from the lock file, into `compat/node/node_modules`. Which cluster: see
`target.py`. The client cannot send one-way or in batches and has no orderly consumer; the Go tests do those.
"""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.compat.target import CACHE, ROOT, built, required, run, target

pytestmark = [pytest.mark.node, pytest.mark.process]

SOURCES = ROOT / "compat" / "node"
INSTALL_TIMEOUT_S = 300.0
RUN_TIMEOUT_S = 400.0


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with target(tmp_path_factory.mktemp("node-store")) as address:
        yield address


@pytest.fixture(scope="module")
def node() -> str:
    program, npm = required("node"), required("npm")
    if not (SOURCES / "node_modules" / "ali-ons").is_dir():
        (CACHE / "node" / "built.sha256").unlink(missing_ok=True)
    packages = [SOURCES / "package.json", SOURCES / "package-lock.json"]
    built("node", packages, lambda: _install(npm))
    return program


def _install(npm: str) -> None:
    run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], SOURCES, INSTALL_TIMEOUT_S)


def test_lock_file_names_no_registry() -> None:
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    assert all(package.get("integrity") for name, package in lock["packages"].items() if name)


@pytest.mark.parametrize(
    ("scenario", "sent", "received"), [("sends", 41, 41), ("tags", 60, 40), ("ordered", 160, 160)]
)
def test_node_client(node: str, namesrv: str, scenario: str, sent: int, received: int) -> None:
    # A name of its own for each run: a cluster named by the environment keeps what earlier runs sent.
    name = f"node_{scenario}_{uuid4().hex[:8]}"
    script = str(SOURCES / "probe.js")
    command = [node, script, scenario, "--namesrv", namesrv, "--topic", name, "--group", f"{name}_group"]
    outcome = json.loads(run(command, ROOT, RUN_TIMEOUT_S))
    assert outcome["ok"], outcome
    assert (outcome["facts"]["sent"], outcome["facts"]["received"]) == (sent, received)
