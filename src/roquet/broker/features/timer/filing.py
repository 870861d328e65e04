"""From the timer's queue into the wheel: every message that was parked gets its slot, in queue order.

    rmq_sys_wheel_timer, queue 0 ─ read ─▶ TIMER_OUT_MS ─ terms.place ─▶ shelf.file

The queue offset moves with each message. Its unit may be in memory only, but the queue offset that is saved
never runs ahead of the units that are, and a start goes on behind the last one. A message that cannot say
when it is due is passed over: it would keep all behind it waiting. Reference: Apache's
TimerMessageStore.enqueue, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from roquet.broker.core.redraft import Stored, reopen
from roquet.broker.features.timer import terms
from roquet.broker.features.timer.metrics import Metrics
from roquet.broker.features.timer.shelf import Message, Shelf
from roquet.broker.features.timer.state import State, TimedStore
from roquet.model.message import java_hash
from roquet.model.names import TIMER_TOPIC
from roquet.ports import Clock

log = logging.getLogger("roquet.broker")

READ_COUNT: Final = 256
READ_BYTES: Final = 1024 * 1024
OUT_DIGITS_MAX: Final = 18


@lru_cache(maxsize=4096)
def topic_hash(topic: str) -> int:
    """Return what a unit says of its topic."""
    return java_hash(topic)


class Filing:
    """Files what the queue holds."""

    def __init__(
        self,
        store: TimedStore,
        shelf: Shelf,
        metrics: Metrics,
        clock: Clock,
        state: State,
        precision_ms: int,
        window: Callable[[], int],
    ) -> None:
        self._store = store
        self._shelf = shelf
        self._metrics = metrics
        self._clock = clock
        self._state = state
        self._precision_ms = precision_ms
        self._window = window

    @property
    def behind(self) -> int:
        """Messages of the queue that are not filed."""
        return max(self._store.max_offset(TIMER_TOPIC, 0) - self._state.queue_offset, 0)

    async def file_some(self) -> None:
        """File a run of messages, up to the one at which it raises OSError. They are not written out yet."""
        state, store = self._state, self._store
        ask = (TIMER_TOPIC, 0, state.queue_offset, READ_COUNT, READ_BYTES)
        got = store.read_hot(*ask) or await store.read(*ask)
        now_ms, window = self._clock.now_ms(), self._window()
        for data in got.records:
            state.queue_offset = await self._file(reopen(data), now_ms, window) + 1
        if not got.records and got.next_offset <= state.queue_offset:
            raise OSError(f"message {state.queue_offset} of {TIMER_TOPIC} cannot be read: {got.status.value}")
        if not got.records:
            log.error(
                "%s goes on at %d instead of %d: the log no longer has the messages between",
                TIMER_TOPIC, got.next_offset, state.queue_offset,
            )  # fmt: skip
        state.queue_offset = max(state.queue_offset, got.next_offset)

    async def _file(self, parked: Stored, now_ms: int, window: int) -> int:
        """File a message; return its queue offset."""
        properties = parked.properties
        out_text, topic = properties.get(terms.OUT_NAME, ""), properties.get("REAL_TOPIC", "")
        if not out_text.isdecimal() or len(out_text) > OUT_DIGITS_MAX or not topic:
            log.error(
                "message %d of %s does not say when it is due, or where", parked.queue_offset, TIMER_TOPIC
            )
            return parked.queue_offset
        write_ms = now_ms - now_ms % self._precision_ms
        slot_ms, is_roll = terms.place(int(out_text), write_ms, window, self._precision_ms)
        is_delete = terms.DELETE_NAME in properties
        message = Message(parked.log_offset, parked.size_bytes, topic_hash(topic), is_delete)
        tick = await self._shelf.file(message, slot_ms, write_ms, is_roll, self._state.read_tick)
        self._state.read_tick = min(self._state.read_tick, tick)
        self._state.filed_log_end = parked.log_offset + parked.size_bytes
        self._state.filed_total += 1
        self._metrics.add(topic, -1 if is_delete else 1, now_ms)
        return parked.queue_offset
