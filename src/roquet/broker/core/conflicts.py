"""Members of one group that do not subscribe the same: found, so that nobody loses messages silently.

    member 1:  orders  A || B        the queues of `orders` are shared out over both members, but each
    member 2:  orders  C             gets only what the last heartbeat asked for: A and B, or C

Members must agree on topics and on expressions. Those that subscribe nothing at all (they assign their
queues by hand) and retry topics do not count. Pure; says nothing about what happens then.
"""

from __future__ import annotations

from typing import NamedTuple

from roquet.broker.core.expressions import TAG
from roquet.broker.core.sessions import ConsumerGroup
from roquet.model import names
from roquet.model.group import Subscription


class View(NamedTuple):
    """One way in which members see a topic; no expression type means that they do not subscribe it."""

    expression_type: str
    expression: str
    client_ids: tuple[str, ...]


def conflicts_of(group: ConsumerGroup) -> dict[str, list[View]]:
    """Return the topics that the members of a group do not subscribe alike, with each way they do."""
    members = [member for member in group.members.values() if member.subscriptions]
    if all(member.subscriptions == members[0].subscriptions for member in members):
        return {}
    topics = sorted({topic for member in members for topic in member.subscriptions})
    found: dict[str, list[View]] = {}
    for topic in topics:
        if names.is_retry(topic):
            continue
        views: dict[tuple[str, str], list[str]] = {}
        for member in members:
            views.setdefault(_view(member.subscriptions.get(topic)), []).append(member.client_id)
        if len(views) > 1:
            found[topic] = [View(*view, tuple(client_ids)) for view, client_ids in views.items()]
    return found


def _view(subscription: Subscription | None) -> tuple[str, str]:
    """Return an expression such that two that mean the same are equal."""
    if subscription is None:
        return "", ""
    kind = subscription.expression_type or TAG
    if kind != TAG:
        return kind, subscription.sub_string
    tags = {tag.strip() for tag in subscription.sub_string.split("||")} - {""}
    return TAG, " || ".join(sorted(tags)) or "*"
