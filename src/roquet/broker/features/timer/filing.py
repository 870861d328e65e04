"""From the timer's queue into the wheel: every message that was parked gets its slot, in queue order.

    rmq_sys_wheel_timer, queue 0 ─ read ─▶ TIMER_OUT_MS ─ terms.place ─▶ a chain of the shelf

The queue offset moves with each message. Its unit may be in memory only, but the queue offset that is saved
never runs ahead of the units that are, and a start goes on behind the last one. A message that cannot say
when it is due is passed over: it would keep all behind it waiting. Reference: Apache's
TimerMessageStore.enqueue, 5.5.0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from roquet.broker.features.timer import terms
from roquet.broker.features.timer.metrics import Metrics
from roquet.broker.features.timer.parked import Parked, read_parked
from roquet.broker.features.timer.shelf import Chain, Message, Shelf
from roquet.broker.features.timer.state import State, TimedStore
from roquet.model.message import java_hash
from roquet.model.names import TIMER_TOPIC
from roquet.ports import Clock

log = logging.getLogger("roquet.broker")

READ_COUNT: Final = 512
READ_BYTES: Final = 1024 * 1024


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
        got = store.read_hot(*ask, bulk=True) or await store.read(*ask, bulk=True)
        await self._file(read_parked(got.records))
        if not got.records and got.next_offset <= state.queue_offset:
            raise OSError(f"message {state.queue_offset} of {TIMER_TOPIC} cannot be read: {got.status.value}")
        if not got.records:
            log.error(
                "%s goes on at %d instead of %d: the log no longer has the messages between",
                TIMER_TOPIC, got.next_offset, state.queue_offset,
            )  # fmt: skip
        state.queue_offset = max(state.queue_offset, got.next_offset)

    async def _file(self, run: Sequence[Parked]) -> None:
        """File messages; each slot among theirs is looked up and changed once."""
        state, shelf = self._state, self._shelf
        now_ms, window = self._clock.now_ms(), self._window()
        write_ms = now_ms - now_ms % self._precision_ms
        chains: dict[int, Chain] = {}
        by_tick: dict[int, Chain] = {}
        rolls: dict[int, bool] = {}
        counts: dict[str, int] = {}
        try:
            for queue_offset, log_offset, size_bytes, out_ms, topic, is_delete in run:
                if not topic:
                    log.error(
                        "message %d of %s does not say when it is due, or where", queue_offset, TIMER_TOPIC
                    )
                    state.queue_offset = queue_offset + 1
                    continue
                chain = chains.get(out_ms)
                if chain is None:
                    slot_ms, rolls[out_ms] = terms.place(out_ms, write_ms, window, self._precision_ms)
                    chain = chains[out_ms] = await shelf.chain(slot_ms, state.read_tick, by_tick)
                    state.read_tick = min(state.read_tick, chain.tick)
                message = Message(log_offset, size_bytes, topic_hash(topic), is_delete)
                shelf.add(chain, message, write_ms, rolls[out_ms])
                state.queue_offset = queue_offset + 1
                state.filed_log_end = log_offset + size_bytes
                state.filed_total += 1
                counts[topic] = counts.get(topic, 0) + (-1 if is_delete else 1)
        finally:
            shelf.keep(by_tick.values())
            for topic, step in counts.items():
                self._metrics.add(topic, step, now_ms)
