"""The name servers: stored values, settings, and which brokers producers stay away from.

Changes go to every name server, since they do not talk to each other. Codes 100, 101, 102, 205, 219, 318,
319, 327.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roquet.client.admin.answered import head, read
from roquet.client.admin.brokers import settings_of
from roquet.client.cluster.cluster import Cluster
from roquet.runtime import properties
from roquet.wire.bodies.registration import decode_values
from roquet.wire.requests import names as rows


class NameServers:
    """Looks at name servers and sets them up."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def addresses(self) -> Sequence[str]:
        """The name servers that are asked."""
        return self._cluster.name_servers

    async def get(self, namespace: str, key: str) -> str:
        """Return a stored value; raises NotFound."""
        return head(await self._cluster.ask_names(rows.GetValue(namespace, key)), rows.ValueFound).value or ""

    async def values(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace; raises NotFound when there is none."""
        return read(decode_values, await self._cluster.ask_names(rows.GetValues(namespace)))

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Store a value."""
        await self._cluster.ask_names_all(rows.PutValue(namespace, key, value))

    async def delete(self, namespace: str, key: str) -> None:
        """Forget a value."""
        await self._cluster.ask_names_all(rows.DeleteValue(namespace, key))

    async def wipe_write(self, broker: str) -> dict[str, int]:
        """Send producers away from a broker; returns how many topics that touched, by name server."""
        answers = await self._cluster.ask_names_all(rows.WipeWrite(broker))
        return {address: head(each, rows.Wiped).wipe_topic_count for address, each in answers.items()}

    async def add_write(self, broker: str) -> dict[str, int]:
        """Let producers come back to a broker; returns how many topics that touched, by name server."""
        answers = await self._cluster.ask_names_all(rows.AddWrite(broker))
        return {address: head(each, rows.Added).add_topic_count for address, each in answers.items()}

    async def settings(self) -> dict[str, dict[str, str]]:
        """Return all settings by name server."""
        answers = await self._cluster.ask_names_all(rows.GetNamesSettings())
        return {address: settings_of(each) for address, each in answers.items()}

    async def update_settings(self, changes: Mapping[str, str]) -> None:
        """Change settings of every name server while they run."""
        body = properties.write(changes.items()).encode()
        await self._cluster.ask_names_all(rows.UpdateNamesSettings(), body)
