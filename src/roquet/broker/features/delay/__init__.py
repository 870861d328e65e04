"""Delay levels: a message with DELAY waits in SCHEDULE_TOPIC_XXXX until its level's time is over.

    send ─▶ park (drafts) ─▶ SCHEDULE_TOPIC_XXXX, queue = level − 1 ─▶ due ─▶ back (drafts) ─▶ real topic
                                              progress: up to where each queue is delivered

`drafts` are the rewrites, `due` says when the head of a queue may go, `progress` is delayOffset.json;
all three are pure. `feature` wires them to the broker. Compatibility: ScheduleMessageService 5.5.0.
"""

from roquet.broker.features.delay.feature import Delay

__all__ = ["Delay"]
