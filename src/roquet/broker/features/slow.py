"""Slow groups: one that reads far behind the end of the log is no longer served.

    pulls ─▶ lags ─▶ every three minutes: behind by more than the threshold ─▶ consumeEnable=false, saved

Off unless `disableConsumeIfConsumerReadSlowly` is set. Old messages come from the disk and push new ones out
of memory: this keeps one such group from slowing all others down. Nothing switches a group on again but an
administrator (code 200). Reference: BrokerController.protectBroker of Apache 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from roquet.broker.core.groups import Groups
from roquet.broker.core.lags import Lags
from roquet.wire.reply import Refusal

log = logging.getLogger("roquet.broker")

INTERVAL_SECONDS: Final = 180.0


class SlowRules(NamedTuple):
    """The settings that decide about slow groups."""

    is_enabled: bool = False
    behind_bytes_max: int = 16 * 1024**3


class Slow:
    """Switches slow groups off."""

    def __init__(self, groups: Groups, lags: Lags, rules: Callable[[], SlowRules]) -> None:
        self._groups = groups
        self._lags = lags
        self._rules = rules
        self._next_at: float | None = None

    def on_tick(self, now: float) -> None:
        """Look at the groups when it is time."""
        if self._next_at is None:
            self._next_at = now + INTERVAL_SECONDS
        if now < self._next_at:
            return
        self._next_at = now + INTERVAL_SECONDS
        rules = self._rules()
        if not rules.is_enabled:
            return
        for name, behind_bytes in self._lags.over(rules.behind_bytes_max).items():
            self._switch_off(name, behind_bytes)

    def _switch_off(self, name: str, behind_bytes: int) -> None:
        self._lags.forget(name)
        group = self._groups.get(name)
        if group is None or not group.consume_enable:
            return
        try:
            self._groups.put(msgspec.structs.replace(group, consume_enable=False))
        except Refusal as refusal:
            log.error("group %s, %d bytes behind, cannot be switched off: %s", name, behind_bytes, refusal)
            return
        log.warning(
            "group %s reads %d bytes behind the end of the log: switched off (consumeEnable=false). Switch "
            "it on again with updateSubGroup, or raise consumerFallbehindThreshold",
            name, behind_bytes,
        )  # fmt: skip
