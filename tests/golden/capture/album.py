"""Where captured frames go: two files an exchange, and a row for the manifest.

    frames/<code>-<name>[-variant].req.bin    the request, whole frame
    frames/<code>-<name>[-variant].res.bin    the answer, whole frame; absent for a one-way request
End of the capture chain. Knows file names and hashes; what was asked, and why, is in `broker_cases.py` and
`names_cases.py`.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.golden.capture.raw import Exchange, header_of

RELEASE = "5.5.0"
RAW = "raw socket"
JAVA = "Apache's Java software"


class Album:
    """Writes exchanges below one folder and remembers what each file holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.rows: list[dict[str, Any]] = []
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.bin"):
            old.unlink()

    def keep(self, name: str, taken: Exchange, variant: str = "", sender: str = RAW) -> None:
        """Write one exchange; the code in the file name is the request's own."""
        code = header_of(taken.request).code
        stem = f"{code}-{name}" + (f"-{variant}" if variant else "")
        if any(row["stem"] == stem for row in self.rows):
            raise ValueError(f"{stem} is there already")
        row: dict[str, Any] = {"stem": stem, "code": code, "name": name, "variant": variant, "sender": sender}
        row["request_sha256"] = self._write(f"{stem}.req.bin", taken.request)
        if taken.response:
            row["answer"] = taken.header.code
            row["remark"] = taken.header.remark
            row["response_sha256"] = self._write(f"{stem}.res.bin", taken.response)
        self.rows.append(row)

    def _write(self, name: str, data: bytes) -> str:
        (self._folder / name).write_bytes(data)
        return hashlib.sha256(data).hexdigest()


def write_manifest(path: Path, section: str, content: object) -> None:
    """Replace one section of the manifest, leaving the others as they are."""
    whole = json.loads(path.read_text()) if path.exists() else {}
    whole["release"] = RELEASE
    whole[section] = content
    path.write_text(json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
