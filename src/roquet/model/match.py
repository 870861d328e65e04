"""What a reader wants of a queue: everything, some tags, or what a selector accepts.

Tags are decided by the queue entry alone; a selector has to see a message's properties, so its records
are looked at before they are chosen.
"""

from __future__ import annotations

from collections.abc import Callable

Accept = Callable[[bytes], bool]
"""Says whether a message is wanted, by its properties as they are stored (`name 0x01 value 0x02 …`)."""

Match = frozenset[int] | Accept | None
"""Tag codes, a selector, or None for every message."""
