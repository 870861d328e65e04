"""The golden bytes themselves: complete, unchanged, and consistent with what the manifest says of them.

Uses the capture scripts' own reader, not ours: what our code makes of these bytes is tested beside that code.
"""

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.golden.capture.raw import header_of
from tests.golden.capture.records import record

HERE = Path(__file__).resolve().parent
MANIFEST: dict[str, Any] = json.loads((HERE / "manifest.json").read_text())
FRAMES: list[dict[str, Any]] = MANIFEST["frames"]
STORES: list[dict[str, Any]] = MANIFEST["stores"]

# The requests that the first release has to answer, with every one of which a golden exchange goes.
BROKER_CODES = [10, 11, 12, 14, 15, 17, 18, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 38, 40, 41, 42, 43]
BROKER_CODES += [
    200,
    201,
    202,
    203,
    204,
    207,
    208,
    215,
    222,
    223,
    300,
    303,
    305,
    306,
    307,
    308,
    310,
    314,
    315,
]
BROKER_CODES += [316, 317, 320, 321, 328, 329, 343, 345, 351, 352, 353, 361, 400, 401, 402, 9999]
NAMES_CODES = [100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 319]
NAMES_CODES += [322, 327, 901, 904]
BLANK = 0xCBD43194


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_wanted_code_has_an_exchange() -> None:
    assert set(BROKER_CODES + NAMES_CODES) - {row["code"] for row in FRAMES} == set()


def test_the_folder_holds_what_the_manifest_lists() -> None:
    listed = {f"{row['stem']}.req.bin" for row in FRAMES}
    listed |= {f"{row['stem']}.res.bin" for row in FRAMES if "response_sha256" in row}
    assert {path.name for path in (HERE / "frames").iterdir()} == listed


@pytest.mark.parametrize("row", FRAMES, ids=[row["stem"] for row in FRAMES])
def test_frames_are_whole_and_unchanged(row: dict[str, Any]) -> None:
    request = HERE / "frames" / f"{row['stem']}.req.bin"
    assert _sha256(request) == row["request_sha256"]
    asked = request.read_bytes()
    assert int.from_bytes(asked[:4]) == len(asked) - 4
    assert header_of(asked).code == row["code"]
    if "response_sha256" in row:
        response = HERE / "frames" / f"{row['stem']}.res.bin"
        assert _sha256(response) == row["response_sha256"]
        answered = response.read_bytes()
        assert int.from_bytes(answered[:4]) == len(answered) - 4
        header = header_of(answered)
        assert (header.is_response, header.opaque) == (True, header_of(asked).opaque)
        assert (header.code, header.remark) == (row["answer"], row["remark"])


@pytest.mark.parametrize("row", STORES, ids=[row["name"] for row in STORES])
def test_stores_hold_what_was_acknowledged_and_read(row: dict[str, Any], tmp_path: Path) -> None:
    archive, listing = (
        HERE / "store" / f"{row['name']}.tar.xz",
        HERE / "store" / f"{row['name']}.expected.json",
    )
    assert (_sha256(archive), _sha256(listing)) == (row["archive_sha256"], row["expected_sha256"])
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    expected = json.loads(listing.read_text())
    logged = _log(tmp_path / row["name"] / "commitlog")
    assert [one for one in expected["readable"] if logged[one["log_offset"]] != one] == []
    lost = [one for one in expected["acknowledged"] if not _same(one, logged[one["log_offset"]])]
    assert lost == []
    assert (tmp_path / row["name"] / "abort").exists() == (row["name"] == "crashed")


@pytest.mark.parametrize("row", MANIFEST["extensions"], ids=lambda row: row["name"])
def test_extensions_are_whole_and_unchanged(row: dict[str, Any]) -> None:
    archive = HERE / "extension" / f"{row['name']}.tar.xz"
    listing = HERE / "extension" / f"{row['name']}.expected.json"
    assert (_sha256(archive), _sha256(listing)) == (row["archive_sha256"], row["expected_sha256"])
    with tarfile.open(archive) as tar:
        held = {member.name.partition("/")[2]: member.size for member in tar if member.isfile()}
    assert held == row["files"]


def test_selectors_are_whole_and_unchanged() -> None:
    row = MANIFEST["selectors"]
    file = HERE / row["file"]
    assert _sha256(file) == row["sha256"]
    golden = json.loads(file.read_text("utf-8"))
    assert (len(golden["selectors"]), len(golden["blooms"])) == (row["selectors"], row["blooms"])


def _same(sent: dict[str, Any], stored: dict[str, Any]) -> bool:
    """Say whether a record is the acknowledged message; a parked one lies in another topic and queue."""
    parked = stored["properties"].get("REAL_TOPIC")
    names = ["msg_id", "body_sha256"] if parked else list(sent)
    return sent["topic"] == (parked or stored["topic"]) and all(sent[name] == stored[name] for name in names)


def _log(folder: Path) -> dict[int, dict[str, Any]]:
    records: dict[int, dict[str, Any]] = {}
    for path in sorted(folder.iterdir()):
        data, at = path.read_bytes(), 0
        while size := int.from_bytes(data[at : at + 4]):
            if int.from_bytes(data[at + 4 : at + 8]) == BLANK:
                break
            records[int(path.name) + at] = record(data[at : at + size])
            at += size
    return records
