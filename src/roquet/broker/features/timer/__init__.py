"""Timed messages: each waits in the wheel until its moment has come, on disk all the while.

    send ─▶ terms ─▶ rmq_sys_wheel_timer ─▶ filing ─▶ shelf (wheel, units) ─▶ delivery ─▶ real topic
                                                 ▲                              │ roll: back into the queue
                                                 └──────────────────────────────┘

`terms`, `handle` and `metrics` are pure, and so are the layouts in `store.format.timer_*`. `recovery` begins,
`listing` looks, `recall` takes back, `feature` wires all to the broker. In memory is what changed since the
last save and the positions of one slot: pending messages cost disk only.
"""

from roquet.broker.features.timer.feature import Timer
from roquet.broker.features.timer.listing import Pending, Wanted
from roquet.broker.features.timer.recall import Recalls

__all__ = ["Pending", "Recalls", "Timer", "Wanted"]
