"""Descriptors are shared out so that files are never left without."""

from __future__ import annotations

import resource

import pytest

from roquet.runtime.descriptors import descriptor_limit, first_kept, queue_files_max

OTHER_FILES = 40  # sixteen log files, tables, the event loop's own and a few of the index


def test_the_limit_is_the_soft_one() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == resource.RLIM_INFINITY or descriptor_limit() == soft


@pytest.mark.parametrize("limit", [256, 1_024, 4_096, 20_000, 1 << 20])
def test_what_peers_may_not_have_is_enough_for_files(limit: int) -> None:
    kept = limit - first_kept(limit)
    assert queue_files_max(limit, 1_000_000) + OTHER_FILES <= kept
    assert first_kept(limit) > limit // 2


def test_a_wish_for_fewer_queue_files_is_granted() -> None:
    assert queue_files_max(1 << 20, 2_048) == 2_048
    assert queue_files_max(1 << 20, 16) == 16
