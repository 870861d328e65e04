"""Administration of a cluster: everything that operators ask of brokers and name servers, typed.

    async with roquet.Admin("127.0.0.1:9876") as admin:
        await admin.topics.create("orders", queues=8)
        print(await admin.offsets.progress("billing"))

    topics · groups · offsets · messages · cluster · names · clients · timers · transactions · dead_letters

Each part is a small file of its own; all stand on one `Reach`, which finds brokers, and one `Cluster`,
which has the connections. Works with Roquet and with Apache RocketMQ 4.9 and 5.x.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from roquet.client.admin.brokers import Brokers
from roquet.client.admin.clients import Clients
from roquet.client.admin.dead_letters import DeadLetters
from roquet.client.admin.groups import Groups
from roquet.client.admin.messages import Messages
from roquet.client.admin.names import NameServers
from roquet.client.admin.offsets import Offsets
from roquet.client.admin.reach import Reach
from roquet.client.admin.reading import Queues
from roquet.client.admin.timers import Timers
from roquet.client.admin.topics import Topics
from roquet.client.admin.transactions import Transactions
from roquet.client.cluster.cluster import Cluster
from roquet.ports import Ports


class Admin:
    """All administrative calls; open it with `async with`.

    Args:
        cluster: where the name servers are, a `Cluster` to share, or nothing: then the environment says.
        timeout: seconds for one answer, unless the cluster says otherwise.

    Names of topics and groups are those that the servers know: a namespace is part of them here.
    """

    def __init__(
        self,
        cluster: str | Cluster | None = None,
        *,
        timeout: float | None = None,
        ports: Ports | None = None,
    ) -> None:
        if not isinstance(cluster, Cluster):
            cluster = Cluster(cluster, timeout=timeout, ports=ports)
        self._connections = cluster
        reach = Reach(cluster)
        queues = Queues(reach)
        self.cluster = Brokers(reach)
        self.names = NameServers(cluster)
        self.topics = Topics(reach)
        self.groups = Groups(reach, self.topics)
        self.offsets = Offsets(reach, queues)
        self.messages = Messages(reach, queues)
        self.clients = Clients(reach)
        self.timers = Timers(reach, queues)
        self.transactions = Transactions(reach, queues)
        self.dead_letters = DeadLetters(self.topics, self.groups, self.offsets, self.messages, queues)

    async def __aenter__(self) -> Self:
        await self._connections.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.close()
