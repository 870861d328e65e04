"""How the members of a group share the queues of a topic; pure.

Every member works its own share out from the same two sorted lists, so all of them, Java's too, must
follow one rule. A rule is a function of (my client id, all queues, all members) that returns my queues;
bring your own or take one of these:

    averagely        blocks:  A q0-q2  B q3-q5  C q6-q7         8 queues, three members
    in_circle        dealt:   A q0 q3 q6  B q1 q4 q7  C q2 q5
    by_configuration what you say, whoever else is there
    by_machine_room  blocks of equal size over the brokers `room@name` of your rooms, the rest one each
    near_first       queues of a room to the members of that room; rooms without members to everybody
    consistent_hash  a ring: few queues move when a member comes or goes

Whoever is not among the members gets nothing. Reference: the AllocateMessageQueue… classes of Apache
5.5.0 and its tests.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Sequence
from hashlib import md5
from typing import Final

from roquet.model.route import QueueName

Assign = Callable[[str, Sequence[QueueName], Sequence[str]], Sequence[QueueName]]
"""(my client id, queues, members) → my queues. Both lists come sorted."""

VIRTUAL_NODES: Final = 10
"""Places of one member on the ring."""


def sorted_queues(queues: Collection[QueueName]) -> list[QueueName]:
    """Return queues in the order that every member of a group uses."""
    return sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))


def averagely(client_id: str, queues: Sequence[QueueName], members: Sequence[str]) -> Sequence[QueueName]:
    """Give each member one block; the first ones get one queue more where it does not come out even."""
    if client_id not in members:
        return ()
    index, more = members.index(client_id), len(queues) % len(members)
    size = len(queues) // len(members) + (index < more)
    start = index * size if index < more else index * size + more
    return queues[start : start + size]


def in_circle(client_id: str, queues: Sequence[QueueName], members: Sequence[str]) -> Sequence[QueueName]:
    """Deal the queues out one by one."""
    if client_id not in members:
        return ()
    return queues[members.index(client_id) :: len(members)]


def by_configuration(mine: Collection[QueueName]) -> Assign:
    """Return the rule that this member has just these queues."""

    def assign(client_id: str, queues: Sequence[QueueName], members: Sequence[str]) -> Sequence[QueueName]:
        return tuple(queue for queue in queues if queue in mine)

    return assign


def by_machine_room(rooms: Collection[str]) -> Assign:
    """Return the rule that takes only brokers named `room@name` of these rooms."""

    def assign(client_id: str, queues: Sequence[QueueName], members: Sequence[str]) -> Sequence[QueueName]:
        if client_id not in members:
            return ()
        near = [queue for queue in queues if _room_of_broker(queue.broker_name) in rooms]
        index, size = members.index(client_id), len(near) // len(members)
        rest = size * len(members) + index
        return (*near[index * size : (index + 1) * size], *near[rest : rest + 1])

    return assign


def near_first(
    inner: Assign, room_of_member: Callable[[str], str], room_of_broker: Callable[[str], str] | None = None
) -> Assign:
    """Return the rule that shares each room's queues among the members of that room.

    Queues of rooms where no member lives are shared by all; `inner` decides in both cases.
    """
    broker_room = room_of_broker or _room_of_broker

    def assign(client_id: str, queues: Sequence[QueueName], members: Sequence[str]) -> Sequence[QueueName]:
        if client_id not in members:
            return ()
        my_room = room_of_member(client_id)
        inhabited = {room_of_member(member) for member in members}
        rooms: dict[str, list[QueueName]] = {}
        for queue in queues:
            rooms.setdefault(broker_room(queue.broker_name), []).append(queue)
        neighbours = [member for member in members if room_of_member(member) == my_room]
        mine = list(inner(client_id, rooms.pop(my_room, []), neighbours))
        for room in sorted(rooms):
            if room not in inhabited:
                mine += inner(client_id, rooms[room], members)
        return mine

    return assign


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES) -> Assign:
    """Return the rule of a ring on which each member has so many places."""

    def assign(client_id: str, queues: Sequence[QueueName], members: Sequence[str]) -> Sequence[QueueName]:
        if client_id not in members:
            return ()
        # Java's ring is a sorted map: of two places with one hash the later one stays.
        ring = {_hash(f"{member}-{place}"): member for member in members for place in range(virtual_nodes)}
        places = sorted(ring)
        return tuple(queue for queue in queues if ring[places[_place_of(queue, places)]] == client_id)

    return assign


def _place_of(queue: QueueName, places: Sequence[int]) -> int:
    text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
    return bisect.bisect_left(places, _hash(text)) % len(places)


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _room_of_broker(broker_name: str) -> str:
    room, at, _ = broker_name.partition("@")
    return room if at else ""
