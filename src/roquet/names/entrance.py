"""What a broker may call itself, its cluster, its topics and its addresses when it registers.

Place in the flow: `names.handlers` asks here before anything is filed. What is filed goes out again to every
client and tool, so it must be a name there, too. Clusters and brokers are often called after hosts, dots
included, and every broker has topics that contain both names (`<cluster>`, `<broker>_…`): such a topic is
legal when the rest of it is. Returns sentences, empty when nothing is wrong; knows no tables.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from roquet.model.names import topic_fault
from roquet.wire.bodies.registration import Registration
from roquet.wire.requests.names import RegisterBroker

QUEUES_MAX: Final = 65_536
"""Queues of one topic on one broker: what queue ids are stored in allows more, no client copes with it."""

_PLACE_NAME = re.compile(r"[^\s\x00-\x1f\x7f/\\]{1,127}")
_ADDRESS = re.compile(r"([0-9A-Za-z._-]{1,253}|\[[0-9A-Fa-f:.%]{2,64}\]):([0-9]{1,5})", re.ASCII)


def fault(request: RegisterBroker, brought: Registration, known_topics: Container[str]) -> str:
    """Return what is wrong with a registration; topics that are known have been checked before."""
    for what, name in (("cluster", request.cluster_name), ("broker", request.broker_name)):
        if not _PLACE_NAME.fullmatch(name):
            return f"the {what} name {_shown(name)} is empty, too long or has blanks or slashes in it"
    for what, address in (("broker", request.broker_addr), ("HA", request.ha_server_addr)):
        if not is_address(address) and (address or what == "broker"):
            return f"the {what} address {_shown(address)} is not of the form host:port"
    if request.broker_id < 0:
        return f"the broker id {request.broker_id} is negative"
    return _topics_fault(request, brought, known_topics)


def is_address(text: str) -> bool:
    """Return whether a text is `host:port` with a port that can be dialled."""
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[2]) < 65_536


def _topics_fault(request: RegisterBroker, brought: Registration, known_topics: Container[str]) -> str:
    for name, topic in brought.topics.items():
        if name not in known_topics and topic_fault(name):
            rest = name.replace(request.cluster_name, "c").replace(request.broker_name, "b")
            if topic_fault(rest):
                return topic_fault(name)
        if not (0 <= topic.read_queue_nums <= QUEUES_MAX and 0 <= topic.write_queue_nums <= QUEUES_MAX):
            return f"topic {name} has a number of queues outside 0 to {QUEUES_MAX}"
    return ""


def _shown(text: str) -> str:
    return repr(text[:80])
