"""Message ids: where a record lies (offset id), and who made it (unique id).

offset id   store host ip 4 or 16 · port 4 · log offset 8          32 or 56 hex digits
unique id   ip 4 or 16 · pid 2 · seed 4 · ms of this month 4 · counter 2   32 or 56 hex digits
"""

from __future__ import annotations

from datetime import UTC, datetime

from roquet.model.message import Host


def offset_id(host: Host, log_offset: int) -> str:
    """Return the id by which anybody can find the record."""
    return f"{id_prefix(host)}{log_offset:016X}"


def id_prefix(host: Host) -> str:
    """Return the part of offset ids that all records of one broker share."""
    return f"{host.ip.hex()}{host.port:08x}".upper()


def parse_offset_id(text: str) -> tuple[Host, int]:
    """Return host and log offset of an offset id; raises ValueError."""
    if len(text) not in (32, 56):
        raise ValueError(f"{text[:80]!r} is not an offset id: it has {len(text)} characters, not 32 or 56")
    data = bytes.fromhex(text)
    host = Host(data[:-12], int.from_bytes(data[-12:-8], "big"))
    return host, int.from_bytes(data[-8:], "big", signed=True)


class UniqueIds:
    """Makes unique ids for messages whose producer gave none."""

    def __init__(self, ip: bytes, pid: int, seed: int) -> None:
        self._prefix = (ip + (pid & 0xFFFF).to_bytes(2, "big") + seed.to_bytes(4, "big")).hex().upper()
        self._counter = 0
        self._month_start_ms = 0
        self._next_month_ms = 0

    def next(self, now_ms: int) -> str:
        """Return an id that no other call of this process returns within 65,536 of them in one ms."""
        if not self._month_start_ms <= now_ms < self._next_month_ms:
            self._turn_month(now_ms)
        self._counter = self._counter + 1 & 0xFFFF
        return f"{self._prefix}{now_ms - self._month_start_ms:08X}{self._counter:04X}"

    def _turn_month(self, now_ms: int) -> None:
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        self._month_start_ms = int(start.timestamp() * 1000)
        self._next_month_ms = int(following.timestamp() * 1000)
