"""The list of differences is honest: each has a reason, names real servers, and some test asserts it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.client.contract.conftest import KINDS
from tests.client.contract.differences import DIFFERENCES

FOLDER = Path(__file__).parent
ASKED = re.compile(r'\.differs\(\s*"([^"]+)"')


def test_every_difference_names_servers_and_a_reason() -> None:
    for about, difference in DIFFERENCES.items():
        assert difference.kinds and difference.kinds < set(KINDS), about
        assert len(difference.why.split()) >= 5, f"{about}: say why"


def test_every_difference_is_asserted_by_a_test() -> None:
    asked = {about for path in FOLDER.glob("test_*.py") for about in ASKED.findall(path.read_text())}
    assert asked == set(DIFFERENCES)
