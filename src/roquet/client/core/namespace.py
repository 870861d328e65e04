"""Namespaces of the first kind: a prefix on every topic and group that the servers see; pure.

    shop + orders             shop%orders
    shop + %RETRY%billing     %RETRY%shop%billing     inside the prefixes, by which brokers know them
    shop + rmq_sys_trace      rmq_sys_trace           what belongs to the servers keeps its name

Users never see the prefix: `unwrap` takes it off again. Facts: Apache's NamespaceUtil, 5.5.0.
"""

from __future__ import annotations

from typing import Final

from roquet.model.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_GROUP_PREFIX, SYSTEM_GROUPS, is_system

SEPARATOR: Final = "%"


def wrap(namespace: str, name: str) -> str:
    """Return the name as the servers know it; a name that is wrapped already stays."""
    prefix, bare = _parted(name)
    if not namespace or not bare or _belongs_to_servers(name) or bare.startswith(namespace + SEPARATOR):
        return name
    return f"{prefix}{namespace}{SEPARATOR}{bare}"


def unwrap(namespace: str, name: str) -> str:
    """Return the name as the user knows it; one from elsewhere stays."""
    prefix, bare = _parted(name)
    if not namespace:
        return name
    return prefix + bare.removeprefix(namespace + SEPARATOR)


def _parted(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _belongs_to_servers(name: str) -> bool:
    return is_system(name) or name in SYSTEM_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)
