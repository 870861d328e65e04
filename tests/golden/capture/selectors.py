"""Asks Apache's filter classes again about every pair of `sql92.json` and writes down what they answer.

    python -m tests.golden.capture.selectors

The pairs themselves (expression, properties) are the file's own: add one with any answer and run this.
"""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.peers import jars

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent
FILE = GOLDEN / "sql92.json"


def _hex(text: str) -> str:
    return text.encode().hex()


def _answers(lines: list[str]) -> list[str]:
    source = HERE / "Selectors.java"
    command = [jars.java(), "-cp", jars.apache_classpath(), str(source)]
    text = "\n".join(lines) + "\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=300)
    answers = done.stdout.splitlines()
    assert len(answers) == len(lines), done.stderr[-2000:]
    return answers


def main() -> None:
    golden: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    selectors, blooms = golden["selectors"], golden["blooms"]
    lines = [
        f"S\t{_hex(expression)}\t" + ",".join(f"{_hex(name)}={_hex(value)}" for name, value in pairs.items())
        for expression, pairs, _ in selectors
    ]
    lines += [f"B\t{row[0]}\t{row[1]}\t{_hex(row[2])}" for row in blooms]
    answers = _answers(lines)
    for row, answer in zip(selectors, answers, strict=False):
        row[2] = answer
    for row, answer in zip(blooms, answers[len(selectors) :], strict=True):
        hash_count, bit_count, positions = answer.split()
        row[3:] = [int(hash_count), int(bit_count), [int(each) for each in positions.split(",")]]
    FILE.write_text(_layout(golden["from"], selectors, blooms), "utf-8")
    manifest_file = GOLDEN / "manifest.json"
    manifest = json.loads(manifest_file.read_text())
    manifest["selectors"] = {
        "blooms": len(blooms),
        "file": FILE.name,
        "selectors": len(selectors),
        "sha256": hashlib.sha256(FILE.read_bytes()).hexdigest(),
    }
    manifest_file.write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")


def _layout(source: str, selectors: list[Any], blooms: list[Any]) -> str:
    """Return the file, one row a line, so that a change shows as a line."""

    def rows(found: list[Any]) -> str:
        return ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in found)

    head = f' "from": {json.dumps(source)},\n'
    return f'{{\n{head} "selectors": [\n{rows(selectors)}\n ],\n "blooms": [\n{rows(blooms)}\n ]\n}}\n'


if __name__ == "__main__":
    main()
