"""What /proc says, from texts and from this very process."""

import os

from bench.process_info import TICKS_PER_S, Memory, cpu_s, memory, parse_cpu_s, parse_memory

STAT = "4711 (a (strange) name) S 1 4711 4711 0 -1 4194560 900 0 1 0 250 50 7 7 20 0 5 0 100 1000 200\n"
SMAPS_ROLLUP = """5581c9a00000-7ffd5d5f2000 ---p 00000000 00:00 0                          [rollup]
Rss:               10240 kB
Pss:                9000 kB
Anonymous:          2560 kB
AnonHugePages:         0 kB
"""


def test_cpu_is_user_and_system_time_without_children() -> None:
    assert parse_cpu_s(STAT) == 300 / TICKS_PER_S


def test_memory_is_told_in_mib() -> None:
    assert parse_memory(SMAPS_ROLLUP) == Memory(resident_mib=10.0, anonymous_mib=2.5)


def test_this_process_has_both() -> None:
    found = memory(os.getpid())
    assert 0 < found.anonymous_mib < found.resident_mib
    assert cpu_s(os.getpid()) > 0
