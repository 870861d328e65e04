"""A run as a file: numbers, commit, date and machine, in bench/results/<name>.json.

Every number of every round is kept, so that a table can be drawn again and another statistic be asked for.
The file is written anew after each round: a run that is broken off keeps what it has.
"""

import json
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import process_info, servers
from bench.clients import CLIENT_JVM
from bench.figures import Measure
from bench.servers import Target
from tests.peers import jars

FOLDER = Path(__file__).parent / "results"


class Result:
    """Numbers of a run, round by round, and where they come from."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self.about = dict(about)
        self.values: dict[Target, list[dict[Measure, float]]] = {}

    def add(self, target: Target, numbers: Mapping[Measure, float]) -> None:
        """Add the numbers of one round of one target."""
        self.values.setdefault(target, []).append(dict(numbers))

    def save(self, name: str) -> Path:
        """Write the file and return its path."""
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{name}.json"
        values = {target.value: rounds for target, rounds in self.values.items()}
        path.write_text(json.dumps({**self.about, "values": values}, indent=2, ensure_ascii=False) + "\n")
        return path


class Tally:
    """Numbers by name, round by round, and why some are missing; `part` is in the file's name."""

    def __init__(self, part: str, about: Mapping[str, Any]) -> None:
        self.part = part
        self.about = dict(about)
        self.rounds: list[dict[str, float]] = []
        self.notes: dict[str, str] = {}

    def save(self, name: str) -> Path:
        """Write the file and return its path."""
        FOLDER.mkdir(exist_ok=True)
        path = FOLDER / f"{name}-{self.part}.json"
        content = {**self.about, "notes": self.notes, "rounds": self.rounds}
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        return path


def about(mode: str) -> dict[str, Any]:
    """Return what there is to know about this commit, this hour and this machine."""
    return {
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "mode": mode,
        "apache": jars.APACHE_VERSION,
        "machine": process_info.machine(jars.java()),
        "broker_conf": servers.BROKER_CONF,
        "broker_jvm": " ".join(servers.BROKER_JVM),
        "client_jvm": " ".join(CLIENT_JVM),
    }


def begun(mode: str) -> Result:
    """Return an empty result that knows where it comes from."""
    return Result(about(mode))


def load_tally(name: str, part: str) -> Tally:
    """Read a file that `Tally.save` wrote; raises OSError, KeyError or ValueError when it is none."""
    stored = json.loads((FOLDER / f"{name}-{part}.json").read_text())
    rounds, notes = stored.pop("rounds"), stored.pop("notes")
    tally = Tally(part, stored)
    tally.rounds, tally.notes = rounds, notes
    return tally


def load(path: Path) -> Result:
    """Read a file that `save` wrote; raises KeyError or ValueError when it is something else."""
    stored = json.loads(path.read_text())
    values = stored.pop("values")
    result = Result(stored)
    result.values = {
        Target(target): [{Measure(key): float(number) for key, number in found.items()} for found in rounds]
        for target, rounds in values.items()
    }
    return result


def _commit() -> str:
    argv = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=jars.ROOT, timeout=30)
    return done.stdout.strip() or "unknown"
