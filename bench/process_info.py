"""What the kernel says about one process: CPU time, memory, and the machine around it.

Reads /proc, so Linux only. CPU is user and system time of all threads, those that have ended included;
anonymous memory is what belongs to the process alone and cannot be dropped, unlike mapped files, which
`Rss` counts as well. Reference: proc(5).
"""

import os
import platform
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

KIB = 1024
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Memory(NamedTuple):
    resident_mib: float
    anonymous_mib: float


def cpu_s(pid: int) -> float:
    """Return the CPU seconds, user and system, that a process has used since its start."""
    return parse_cpu_s(Path(f"/proc/{pid}/stat").read_text())


def memory(pid: int) -> Memory:
    """Return the memory of a process now."""
    return parse_memory(Path(f"/proc/{pid}/smaps_rollup").read_text())


def parse_cpu_s(stat: str) -> float:
    """Return the CPU seconds of a `stat` line, in which the program's name may hold blanks and brackets."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def parse_memory(smaps_rollup: str) -> Memory:
    """Return the sums of a `smaps_rollup` text."""
    kib = {
        words[0].rstrip(":"): int(words[1])
        for words in map(str.split, smaps_rollup.splitlines())
        if len(words) == 3 and words[2] == "kB"
    }
    return Memory(kib["Rss"] / KIB, kib["Anonymous"] / KIB)


class CpuTrace:
    """CPU time of a process, looked at again and again, so that any part of the past can be asked for."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seen: list[tuple[float, float]] = []
        self.look()

    def look(self) -> float:
        """Note the CPU time as it is now; return the time of the monotonic clock."""
        now = time.monotonic()
        self._seen.append((now, cpu_s(self._pid)))
        return now

    def used(self, since: float, until: float) -> float:
        """Return the CPU seconds between two times, each taken as the look that was nearest to it."""
        return self._at(until) - self._at(since)

    def _at(self, moment: float) -> float:
        return min(self._seen, key=lambda look: abs(look[0] - moment))[1]


def machine(java: str) -> dict[str, str | int]:
    """Return what a reader of the numbers should know about this machine."""
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes / KIB**3),
        "processor": _processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": printed.splitlines()[0] if printed else "unknown",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
