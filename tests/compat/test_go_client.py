"""Apache's Go client (compat/go) sends to and reads from a cluster; the program checks what comes back.

The program is built once into `.cache/go/`. Which cluster: see `target.py`.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.compat.target import CACHE, ROOT, built, required, run, target

pytestmark = [pytest.mark.go, pytest.mark.process]

SOURCES = ROOT / "compat" / "go"
PROGRAM = CACHE / "go" / "probe"
BUILD_TIMEOUT_S = 600.0
RUN_TIMEOUT_S = 400.0


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with target(tmp_path_factory.mktemp("go-store")) as address:
        yield address


@pytest.fixture(scope="module")
def probe() -> Path:
    go = required("go")
    sources = [*SOURCES.glob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"]
    if not PROGRAM.exists():
        (CACHE / "go" / "built.sha256").unlink(missing_ok=True)
    built("go", sources, lambda: _build(go))
    return PROGRAM


def _build(go: str) -> None:
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    run([go, "build", "-mod=readonly", "-o", str(PROGRAM), "."], SOURCES, BUILD_TIMEOUT_S)


@pytest.mark.parametrize(
    ("scenario", "sent", "received"),
    [("sends", 81, 81), ("tags", 60, 40), ("ordered", 100, 100), ("pull", 20, 20)],
)
def test_go_client(probe: Path, namesrv: str, scenario: str, sent: int, received: int) -> None:
    assert _facts(probe, namesrv, scenario) == {"sent": sent, "received": received}


def test_go_client_gets_refused_messages_again(probe: Path, namesrv: str) -> None:
    assert _facts(probe, namesrv, "retry") == {"refused": 3, "received": 3}


def _facts(probe: Path, namesrv: str, scenario: str) -> dict[str, int]:
    # A name of its own for each run: a cluster named by the environment keeps what earlier runs sent.
    name = f"go_{scenario}_{uuid4().hex[:8]}"
    command = [str(probe), scenario, "-namesrv", namesrv, "-topic", name, "-group", f"{name}_group"]
    outcome = json.loads(run(command, ROOT, RUN_TIMEOUT_S))
    assert outcome["ok"], outcome
    facts: dict[str, int] = outcome["facts"]
    return facts
