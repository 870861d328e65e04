"""The page that lists the name servers: read when the client opens, and every two minutes after that.

    http://config:8080/rocketmq/nsaddr   ─▶   10.0.0.1:9876;10.0.0.2:9876

A page that cannot be read, or lists nothing, changes nothing once a list is known.
"""

from __future__ import annotations

import logging
from typing import Final

from roquet.client.cluster.names import Names
from roquet.client.cluster.where import parse_list
from roquet.client.errors import Misuse, NamesUnreachable
from roquet.ports import Clock, Net
from roquet.transport.http import get

log = logging.getLogger("roquet.client")

LIST_SECONDS: Final = 120.0


class NameList:
    """Fills `names` from an HTTP address."""

    def __init__(self, url: str, net: Net, clock: Clock, timeout_s: float, names: Names) -> None:
        self._url = url
        self._net = net
        self._clock = clock
        self._timeout_s = timeout_s
        self._names = names

    async def read(self) -> None:
        """Read the list now; raises NamesUnreachable, or Misuse when the text is no list."""
        try:
            text = await get(self._net, self._clock, self._url, self._timeout_s)
        except OSError as error:
            raise NamesUnreachable(
                f"{self._url} gives no list of name servers: {error.strerror or error}",
                hint="it must answer with text like 10.0.0.1:9876;10.0.0.2:9876",
            ) from None
        self._names.put(parse_list(text))

    async def run(self) -> None:
        """Read it again and again until cancelled."""
        while True:
            await self._clock.sleep_until(self._clock.monotonic() + LIST_SECONDS)
            try:
                await self.read()
            except (NamesUnreachable, Misuse) as error:
                log.warning("the list of name servers stays as it is: %s", error.what)
