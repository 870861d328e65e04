"""Which queue a message goes to: in turns, by a key, or by the user's own function; pure.

    turns   every queue in its order, beginning at random; after a failure not at the same broker again
    key     equal keys, equal queue, as long as the topic's queues stay: Java's hash of the key, so that a
            Java producer with SelectMessageQueueByHash puts the same key into the same queue

Knows nothing of routes or of what happened to a broker: whoever asks says which brokers are in favour.
Reference: TopicPublishInfo and SelectMessageQueueByHash of Apache 5.5.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roquet.model.message import java_hash
from roquet.model.route import QueueName

Pick = Callable[[Sequence[QueueName]], QueueName]
"""A user's own choice among the queues of a topic; it may return any of them."""


def by_key(queues: Sequence[QueueName], key: str) -> QueueName:
    """Return the queue of an ordering key."""
    # Java: the remainder first, its sign away afterwards. That is the remainder of the absolute value.
    return queues[abs(java_hash(key)) % len(queues)]


def always(queue: QueueName) -> Pick:
    """Return the choice of one queue."""

    def pick(queues: Sequence[QueueName]) -> QueueName:
        return queue

    return pick


class Turns:
    """The turn-taking of one topic."""

    __slots__ = ("_turn",)

    def __init__(self, first: int) -> None:
        self._turn = first

    def next(self, queues: Sequence[QueueName]) -> QueueName:
        """Return the queue whose turn it is."""
        turn = self._turn
        self._turn = turn + 1
        return queues[turn % len(queues)]

    def next_where(self, queues: Sequence[QueueName], *wishes: Callable[[str], bool]) -> QueueName:
        """Return the next queue whose broker meets the first wish that any meets; without one, the next."""
        for wish in wishes:
            for _ in range(len(queues)):
                queue = self.next(queues)
                if wish(queue.broker_name):
                    return queue
        return self.next(queues)
