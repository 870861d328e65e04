"""Administration: `Admin` and the values that it returns."""

from roquet.client.admin.admin import Admin
from roquet.client.admin.brokers import Rates, Runtime
from roquet.client.admin.clients import Connection, ConsumerGroup, LiveProducer, View
from roquet.client.admin.dead_letters import DeadGroup, Replayed
from roquet.client.admin.offsets import Bounds, Progress, QueueProgress, QueueTimes
from roquet.client.admin.reach import BrokerPlace
from roquet.client.admin.timers import Pending
from roquet.client.admin.topics import QueueStats, TopicStats

__all__ = [
    "Admin",
    "Bounds",
    "BrokerPlace",
    "Connection",
    "ConsumerGroup",
    "DeadGroup",
    "LiveProducer",
    "Pending",
    "Progress",
    "QueueProgress",
    "QueueStats",
    "QueueTimes",
    "Rates",
    "Replayed",
    "Runtime",
    "TopicStats",
    "View",
]
