"""The running state of the broker: the runtime table, single counters, replicas.

Place in the flow: router ─▶ here ─▶ `core.stats`, `core.runtime_info`, the store's figures, and what
features add of their own. Codes 28, 315, 907. Reference: AdminBrokerProcessor of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from roquet.broker.core.runtime_info import RuntimeInfo, size_text
from roquet.broker.core.series import Snapshot
from roquet.broker.core.stats import Stats
from roquet.ports import Clock, Disk
from roquet.store.format import record
from roquet.store.store import Store
from roquet.transport.link import Call
from roquet.transport.router import Handler
from roquet.wire.bodies import admin
from roquet.wire.codes import Code
from roquet.wire.reply import Outcome, Refusal, Reply
from roquet.wire.requests.settings import GetReplicationStatus, GetRuntimeInfo, ViewStats
from roquet.wire.row import Header

VERSION_NAME: Final = "V5_5_0"
"""Tools show it as the broker's version: it says whose behaviour to expect."""

POOLS: Final = {"send": 10_000, "pull": 100_000, "litePull": 100_000, "query": 20_000, "ack": 100_000}
"""Apache's thread pools with the lengths of their queues: tools divide by these. We have no pools."""

FIXED: Final = {
    "brokerActive": "true",
    "brokerVersionDesc": VERSION_NAME,
    "dispatchMaxBuffer": "0",
    "pageCacheLockTimeMills": "0",
    "remainTransientStoreBufferNumbs": "2147483647",
    "timerReadBehind": "0",
    "timerOffsetBehind": "0",
    "timerCongestNum": "0",
    "timerEnqueueTps": "0.0",
    "timerDequeueTps": "0.0",
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "100000",
    **{f"{pool}ThreadPoolQueueSize": "0" for pool in POOLS},
    **{f"{pool}ThreadPoolQueueCapacity": str(length) for pool, length in POOLS.items()},
    **{f"{pool}ThreadPoolQueueHeadWaitTimeMills": "0" for pool in POOLS},
}
"""Lines that always say the same here; a feature may put its own over them."""


class StatsHandlers:
    """Answers how the broker runs."""

    def __init__(
        self,
        stats: Stats,
        runtime: RuntimeInfo,
        store: Store,
        disk: Disk,
        clock: Clock,
        more: Sequence[Callable[[], Mapping[str, str]]] = (),
    ) -> None:
        """`more` are lines of the runtime table that features know."""
        self._stats = stats
        self._runtime = runtime
        self._store = store
        self._disk = disk
        self._clock = clock
        self._more = tuple(more)

    def routes(self) -> dict[type[Header], Handler]:
        return {
            GetRuntimeInfo: self.get_runtime_info,
            ViewStats: self.view_stats,
            GetReplicationStatus: self.get_replication_status,
        }

    async def get_runtime_info(self, request: GetRuntimeInfo, call: Call) -> Outcome:
        table = FIXED | self._runtime.texts(self._clock.now_ms()) | await self._store_texts()
        for lines in self._more:
            table |= lines()
        return Reply(body=admin.encode({"table": table}))

    async def _store_texts(self) -> dict[str, str]:
        store = self._store
        usage = self._disk.usage(store.settings.root_dir)
        log_ratio = str(store.log_disk_ratio)
        total, free = size_text(usage.total_bytes), size_text(usage.free_bytes)
        return {
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
            "commitLogDiskRatio": log_ratio,
            f"commitLogDiskRatio_{store.settings.log_dir}": log_ratio,
            "commitLogMaxOffset": str(store.log_max_offset),
            "commitLogMinOffset": str(store.log_min_offset),
            "consumeQueueDiskRatio": str(store.queue_disk_ratio),
            "dispatchBehindBytes": str(store.dispatch_behind_bytes),
            "earliestMessageTimeStamp": str(await self._earliest_ms()),
            "remainHowManyDataToFlush": size_text(max(store.log_max_offset - store.flushed_offset, 0)),
            "startAcceptSendRequestTimeStamp": "0",
        }

    async def _earliest_ms(self) -> int:
        """Return when the oldest record was stored; −1, as tools know it, when there is none."""
        oldest = await self._store.record_at(self._store.log_min_offset)
        return -1 if oldest is None else record.store_ms_of(oldest)

    def view_stats(self, request: ViewStats, call: Call) -> Outcome:
        view = self._stats.view(request.stats_name, request.stats_key)
        if view is None:
            remark = f"The stats <{request.stats_name[:255]}> <{request.stats_key[:512]}> not exist"
            raise Refusal(Code.SYSTEM_ERROR, remark)
        body = admin.StatsLines(
            stats_day=_line(view.day), stats_hour=_line(view.hour), stats_minute=_line(view.minute)
        )
        return Reply(body=admin.encode(body))

    def get_replication_status(self, request: GetReplicationStatus, call: Call) -> Outcome:
        """Say that this is a master without followers, which is all there is so far."""
        body = admin.ReplicationStatus(master_commit_log_max_offset=self._store.log_max_offset)
        return Reply(body=admin.encode(body))


def _line(snapshot: Snapshot) -> admin.StatsLine:
    return admin.StatsLine(avgpt=snapshot.average, sum=snapshot.sum, tps=snapshot.tps)
