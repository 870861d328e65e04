"""Timed messages at work: park what asks for a time, and deliver it while master.

    before_append   TIMER_* ─▶ rmq_sys_wheel_timer, with TIMER_OUT_MS, REAL_TOPIC, REAL_QID
    run             recover ─▶ { file what is new ─▶ deliver what is due ─▶ save ─▶ sleep until the next }

One task does all of it in turn, so nothing changes under its hands; it sleeps until a message is parked, a
slot is due or a second is over. Each wake looks at the wall clock anew: when it was set forward, what is due
goes at once, and when it was set back, what is not due any more waits. Files are made with the first
timed message. Compatibility: TimerMessageStore of Apache 5.5.0.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

import msgspec

from roquet.broker.core.pipeline import Pipeline, Rewrite, rewrite
from roquet.broker.core.table_hook import TableHook
from roquet.broker.features.timer import terms
from roquet.broker.features.timer.delivery import Delivery
from roquet.broker.features.timer.filing import Filing
from roquet.broker.features.timer.handle import format_handle
from roquet.broker.features.timer.listing import EVERYTHING, Pending, Wanted, pending_messages
from roquet.broker.features.timer.metrics import Metrics
from roquet.broker.features.timer.recall import Recalls
from roquet.broker.features.timer.recovery import CheckFile, recover
from roquet.broker.features.timer.shelf import Shelf
from roquet.broker.features.timer.state import PutCounter, State, TimedStore
from roquet.broker.features.timer.units import Units
from roquet.broker.features.timer.wheel import Wheel
from roquet.model import names
from roquet.model.message import Draft, Entry
from roquet.model.names import TIMER_TOPIC
from roquet.ports import Clock, Disk
from roquet.store.format.timer_check import TimerCheck, encode_body
from roquet.store.settings import StoreSettings
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.codes import Code
from roquet.wire.reply import Outcome, Refusal, Reply
from roquet.wire.requests.replica import GetTimerCheck, GetTimerMetrics
from roquet.wire.requests.timer import Recall
from roquet.wire.row import Header

log = logging.getLogger("roquet.broker")

AGAIN_AFTER_S: Final = 1.0
"""Time until a round that the disk refused is tried again."""

FILE_AFTER_S: Final = 0.02
"""How long new messages gather before they are filed; far less than a slot."""

LOOK_AHEAD_SLOTS: Final = 8_192
"""Slots that are searched for the next one to wait for."""

CHANGED_SLOTS_MAX: Final = 20_000
"""Slots in memory at which they are saved before the second is over."""

IDLE_SAVE_S: Final = 60.0
DROP_PERIOD_S: Final = 30.0
METRICS_PERIOD_S: Final = 5.0


class Timer:
    """The timed messages of one broker."""

    def __init__(
        self,
        clock: Clock,
        disk: Disk,
        store: TimedStore,
        pipeline: Pipeline,
        stats: PutCounter,
        recalls: Recalls,
        broker_name: str,
        store_v6: bool,
        settings: Callable[[], StoreSettings],
    ) -> None:
        self._clock = clock
        self._store = store
        self._recalls = recalls
        self._broker_name = broker_name
        self._settings = settings
        opened = settings()
        root = opened.root_dir
        self._precision_ms = opened.timer_precision_ms
        self._check_file = CheckFile(disk, f"{root}/config/timercheck")
        self._wheel = Wheel(disk, f"{root}/timerwheel")
        self._units = Units(disk, f"{root}/timerlog", opened.timer_log_file_size_bytes)
        self._shelf = Shelf(self._wheel, self._units, clock, self._precision_ms)
        self._metrics = Metrics()
        self._state = State()
        self._filing = Filing(
            store, self._shelf, self._metrics, clock, self._state, self._precision_ms, self._window
        )
        self._delivery = Delivery(
            store,
            pipeline,
            self._shelf,
            self._metrics,
            stats,
            clock,
            self._state,
            self._precision_ms,
            store_v6,
            self._save_if_due,
        )
        self._wake = asyncio.Event()
        self._is_called = False
        self._is_ready = False
        self._next_due_ms = 0
        self._seen_ms = 0
        self._saved_at = self._dropped_at = 0.0
        self._totals = (0, 0)
        self._rates = (0, 0)

    # hooks

    def routes(self) -> dict[type[Header], Handler]:
        return {
            Recall: self._recalls.recall,
            GetTimerCheck: self.get_check,
            GetTimerMetrics: self.get_metrics,
        }

    marks = frozenset({*terms.NAMES, terms.DELETE_NAME})

    def before_append(self, draft: Draft, properties: Mapping[str, str]) -> Draft | Rewrite:
        """Park a draft that asks for a time; raises Refusal."""
        if draft.topic == TIMER_TOPIC:
            raise Refusal(Code.NO_PERMISSION, f"Sending message to topic[{TIMER_TOPIC}] is forbidden.")
        if not terms.is_asked(draft, properties):
            return draft
        settings = self._settings()
        if not settings.timer_wheel_enable:
            raise Refusal(Code.SYSTEM_ERROR, "timed messages are off on this broker: timerWheelEnable=false")
        now_ms = self._clock.now_ms()
        try:
            ms = terms.deliver_ms(properties, now_ms)
        except ValueError as error:
            raise Refusal(Code.MESSAGE_ILLEGAL, f"timer message illegal: {error}") from None
        if ms <= now_ms:
            if terms.DELETE_NAME in properties:
                remark = "timer message illegal: what it would delete is due already"
                raise Refusal(Code.MESSAGE_ILLEGAL, remark)
            return draft
        if ms - now_ms > settings.timer_max_delay_s * 1000:
            raise Refusal(
                Code.MESSAGE_ILLEGAL,
                f"timer message illegal: it is due in {ms - now_ms} ms, and the delay time should not be "
                f"bigger than the max delay {settings.timer_max_delay_s * 1000} ms (timerMaxDelaySec)",
            )
        return self._park(draft, properties, terms.rounded(ms, self._precision_ms))

    def _park(self, draft: Draft, properties: Mapping[str, str], out_ms: int) -> Rewrite:
        place = {terms.OUT_NAME: str(out_ms), "REAL_TOPIC": draft.topic, "REAL_QID": str(draft.queue_id)}
        unique_key = properties.get("UNIQ_KEY", "")
        reply: Mapping[str, str] = {}
        if unique_key and not names.is_retry(draft.topic):
            reply = {"recallHandle": format_handle(draft.topic, self._broker_name, out_ms, unique_key)}
        return rewrite(draft, properties, place, topic=TIMER_TOPIC, queue_id=0, is_final=True, reply=reply)

    def on_entries(self, entries: Sequence[Entry]) -> None:
        """Wake up when something was parked, a little later: a round costs the same for one or for many."""
        if self._is_called or self._store.max_offset(TIMER_TOPIC, 0) <= self._state.queue_offset:
            return
        self._is_called = True
        self._clock.call_at(self._clock.monotonic() + FILE_AFTER_S, self._wake.set)

    def on_tick(self, now: float) -> None:
        """Once a second: see whether the clock was set, whether to save, how fast we are."""
        now_ms = self._clock.now_ms()
        state = self._state
        totals = (state.filed_total, state.delivered_total)
        self._rates = (totals[0] - self._totals[0], totals[1] - self._totals[1])
        self._totals = totals
        if self._is_ready and (
            now_ms >= self._next_due_ms
            or now_ms < self._seen_ms
            or self._is_save_due()
            or self._filing.behind
        ):
            self._wake.set()

    def tables(self) -> tuple[TableHook, ...]:
        metrics = self._metrics
        return (
            TableHook(
                "timermetrics",
                metrics.load,
                metrics.dump,
                lambda: metrics.is_changed,
                metrics.saved,
                METRICS_PERIOD_S,
            ),
        )

    def runtime_texts(self) -> dict[str, str]:
        """Return how far the timer is behind, and how much waits."""
        late_ms = self._clock.now_ms() - self._state.read_tick * self._precision_ms
        is_late = self._is_ready and self._next_due_ms <= self._clock.now_ms()
        return {
            "timerReadBehind": str(max(late_ms, 0) // 1000 if is_late else 0),
            "timerOffsetBehind": str(self._filing.behind if self._is_ready else 0),
            "timerCongestNum": str(max(self._shelf.pending, 0)),
            "timerEnqueueTps": f"{self._rates[0]:.1f}",
            "timerDequeueTps": f"{self._rates[1]:.1f}",
        }

    def get_check(self, request: GetTimerCheck, call: Call) -> Outcome:
        return Reply(body=encode_body(self._check_file.check))

    def get_metrics(self, request: GetTimerMetrics, call: Call) -> Outcome:
        return Reply(body=msgspec.json.encode(self._metrics.dump()))

    async def pending(self, wanted: Wanted = EVERYTHING) -> AsyncIterator[Pending]:
        """Yield what waits for its time, by slot; what was parked in this moment may be missing."""
        if self._is_ready:
            read_tick = self._state.read_tick
            async for found in pending_messages(
                self._shelf, self._store, read_tick, self._precision_ms, wanted
            ):
                yield found

    # work

    async def run(self) -> None:
        """File and deliver for as long as this broker is master; ends between two appends."""
        self._state.is_stopping = False
        work = asyncio.get_running_loop().create_task(self._work())
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            self._state.is_stopping = True
            self._wake.set()
            await work
            raise

    async def _work(self) -> None:
        state = self._state
        while not state.is_stopping:
            self._wake.clear()
            self._is_called = False
            try:
                if self._is_ready or self._is_wanted():
                    await self._round()
            except OSError as error:
                log.error("the timer cannot go on: %s; tried again in %d s", error, AGAIN_AFTER_S)
                self._next_due_ms = 0
                await self._sleep(AGAIN_AFTER_S)
                continue
            if not state.is_stopping:
                wait_ms = self._next_due_ms - self._clock.now_ms()
                await self._sleep(wait_ms / 1000 if self._is_ready else None)
        if self._is_ready:
            await self._finish()

    def _is_wanted(self) -> bool:
        # Files that a power cut left behind are looked at before the log grows again: later, what they say
        # of places in it would be taken for what is new there.
        has_files = self._check_file.exists or self._wheel.exists
        return has_files or self._store.max_offset(TIMER_TOPIC, 0) > 0

    async def _round(self) -> None:
        """File all that is new and deliver all that is due; raises OSError."""
        state = self._state
        if not self._is_ready:
            await recover(self._store, self._shelf, self._check_file, self._clock, self._precision_ms, state)
            self._is_ready = True
            self._warn_of_retention()
        while not state.is_stopping:
            self._seen_ms = self._clock.now_ms()
            now_tick = self._seen_ms // self._precision_ms
            if self._filing.behind:
                await self._filing.file_some()
                await self._save_if_due()
                if self._filing.behind:
                    continue
            self._units.write()
            tick = await self._wheel.first(state.read_tick, now_tick)
            if tick is None:
                state.read_tick = now_tick  # back, too, when the clock was set back
                break
            state.read_tick = tick
            if await self._delivery.serve(tick):
                state.read_tick = tick + 1
            await self._save_if_due()
        await self._look_ahead()
        await self._save_if_due()

    async def _look_ahead(self) -> None:
        """Find out when the next slot is due, and forget what was needed for the start only."""
        state = self._state
        end = state.read_tick + LOOK_AHEAD_SLOTS
        tick = await self._wheel.first(state.read_tick, end)
        self._next_due_ms = ((end if tick is None else tick) + 1) * self._precision_ms
        if state.delivered and state.read_tick > state.delivered_until:
            state.delivered.clear()
        now = self._clock.monotonic()
        if now >= self._dropped_at + DROP_PERIOD_S:
            self._dropped_at = now
            await self._units.drop_before(self._store.log_min_offset)

    async def _sleep(self, seconds: float | None) -> None:
        """Return after a time (never without one), or when there is work."""
        timer = None
        if seconds is not None:
            timer = self._clock.call_at(self._clock.monotonic() + max(seconds, 0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _warn_of_retention(self) -> None:
        hours = self._window() * self._precision_ms / 3_600_000
        if hours >= (kept := self._settings().file_reserved_hours):
            log.warning(
                "timed messages wait up to %.1f h in one place of the log (timerRollWindowSlot), but it is "
                "deleted after %d h (fileReservedTime): they may be lost; change one of the two",
                hours, kept,
            )  # fmt: skip

    def _window(self) -> int:
        return terms.window_slots(self._settings().timer_roll_window_slots)

    # saving

    def _is_save_due(self) -> bool:
        now = self._clock.monotonic()
        if now < self._saved_at + self._settings().timer_flush_interval_ms / 1000:
            return self._wheel.changes >= CHANGED_SLOTS_MAX
        saved, shelf = self._check_file.check, self._shelf
        unsettled = shelf.unsettled_log_end
        return bool(
            self._wheel.changes
            or not self._units.is_synced
            or saved.queue_offset != self._state.queue_offset
            or (unsettled is not None and unsettled <= self._store.flushed_offset)
            or now >= self._saved_at + IDLE_SAVE_S
        )

    async def _save_if_due(self) -> None:
        if self._is_save_due():
            await self._save()

    async def _save(self) -> None:
        """Put the timer on disk: units, slots, then the page that vouches for them; raises OSError."""
        self._saved_at = self._clock.monotonic()
        state, shelf = self._state, self._shelf
        if self._store.flushed_offset < state.filed_log_end:
            # A power cut must not take a message whose unit stays: another one would get its place in the
            # log, and two units would lead there.
            await self._store.sync_log()
            if self._store.flushed_offset < state.filed_log_end:
                raise OSError("the log could not be synced, and the timer is not saved ahead of it")
        await shelf.settle(self._store.flushed_offset)
        unsettled_tick, unsettled_from = shelf.unsettled_tick, shelf.unsettled_log_offset
        read_tick = state.read_tick if unsettled_tick is None else min(state.read_tick, unsettled_tick)
        delivered_from = self._store.log_max_offset if unsettled_from is None else unsettled_from
        if state.delivered and self._check_file.delivered_from is not None:
            delivered_from = min(delivered_from, self._check_file.delivered_from)
        queue_offset = state.queue_offset
        await shelf.flush()
        read_ms, before = read_tick * self._precision_ms, self._check_file.check
        counter = before.version_counter + 1
        check = TimerCheck(
            read_ms, self._units.end, queue_offset, queue_offset, before.state_version, self._seen_ms, counter
        )
        await self._check_file.save(check, delivered_from)

    async def _finish(self) -> None:
        """Leave nothing that a next start, Apache's included, would have to find out."""
        try:
            state, now_tick = self._state, self._clock.now_ms() // self._precision_ms
            if await self._wheel.first(state.read_tick, now_tick) is None:
                state.read_tick = max(state.read_tick, now_tick)
            await self._store.sync_log()
            await self._save()
        except OSError as error:
            log.error("the timer could not be saved: %s; the next start finds out what is missing", error)
