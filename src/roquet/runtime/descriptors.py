"""How the descriptors that the system allows a process are shared out between peers and files.

    0 ........................................ limit - limit/8 - 64 ............ limit
      peers, and files that were opened early  |  files alone: queues, log, tables

The system hands out the lowest free number, so the number of a new connection tells how many are left. A
broker that gave its last descriptor to a peer could open no log file, and would stop serving all others.
"""

from __future__ import annotations

KEPT_FOR_FILES = 64
"""Log, index and tables, the event loop's own, and some to spare."""
QUEUE_FILES_SHARE = 8
"""Queue files, of which there may be very many, get one in so many descriptors."""
UNLIMITED = 1 << 20
QUEUE_FILES_MIN = 16


def descriptor_limit() -> int:
    """Return how many descriptors this process may have open."""
    try:
        import resource
    except ImportError:
        return UNLIMITED
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED if soft == resource.RLIM_INFINITY else min(soft, UNLIMITED)


def queue_files_max(limit: int, wanted: int) -> int:
    """Return how many queue files may be open at the same time."""
    return min(wanted, max(QUEUE_FILES_MIN, limit // QUEUE_FILES_SHARE))


def first_kept(limit: int) -> int:
    """Return the lowest descriptor that no peer may have."""
    return limit - limit // QUEUE_FILES_SHARE - KEPT_FOR_FILES
