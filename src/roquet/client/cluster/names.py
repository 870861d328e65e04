"""The name servers of one client: their list, which of them to ask, and what they say.

One is kept while it answers; when it does not, the next one is asked within the same time. Where the list
comes from is not known here, nor what the answers mean.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from roquet.client.errors import NamesUnreachable, RoquetError, TimedOut, Unreachable, refusal
from roquet.ports import Clock, Rng
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.row import Header, row_of

log = logging.getLogger("roquet.client")

ANOTHER_MAY_KNOW: Final = frozenset(
    {
        Code.SYSTEM_ERROR,
        Code.SYSTEM_BUSY,
        Code.SERVICE_NOT_AVAILABLE,
        Code.TOPIC_NOT_EXIST,
        Code.QUERY_NOT_FOUND,
        Code.GO_AWAY,
    }
)
"""Answers that need not be the last word: a name server that has just started knows nothing yet."""


class CallFrame(Protocol):
    """Asks one address; raises RoquetError when no answer comes."""

    def __call__(self, address: str, request: Header, body: bytes, timeout_s: float) -> Awaitable[Frame]: ...


class Names:
    """Asks the name servers."""

    def __init__(
        self,
        addresses: Sequence[str],
        list_url: str,
        clock: Clock,
        rng: Rng,
        call: CallFrame,
        is_ailing: Callable[[str], bool],
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._call = call
        self._is_ailing = is_ailing
        self.list_url = list_url
        self.addresses: tuple[str, ...] = ()
        self.preferred = ""
        self.put(addresses)

    def put(self, addresses: Sequence[str]) -> None:
        """Take over a list; each client begins at another place of it, so that the work is shared."""
        if set(addresses) == set(self.addresses):
            return
        if self.addresses:
            log.info("name servers are now %s", "; ".join(addresses))
        self.addresses = tuple(addresses)
        if self.preferred not in self.addresses and self.addresses:
            self.preferred = self.addresses[self._rng.randrange(len(self.addresses))]

    def in_turn(self) -> list[str]:
        """Return the servers in the order to ask them: the one that answered last, then those after it."""
        start = self.addresses.index(self.preferred) if self.addresses else 0
        return [*self.addresses[start:], *self.addresses[:start]]

    async def call(self, request: Header, body: bytes, timeout_s: float) -> tuple[str, Frame]:
        """Return the first good answer and who gave it, or the last bad one; raises NamesUnreachable."""
        deadline = self._clock.monotonic() + timeout_s
        failures: list[str] = []
        refused: tuple[str, Frame] | None = None
        servers = self.in_turn()
        for index, address in enumerate(servers):
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                failures.append(f"{address}: no time was left to ask it")
                continue
            try:
                # A server that swallows packets must leave time for the ones after it.
                answer = await self._ask(address, request, body, left_s / (len(servers) - index))
            except (Unreachable, TimedOut) as error:
                failures.append(f"{address}: {error.what}")
                continue
            if answer.code == Code.SUCCESS:
                self.preferred = address
                return address, answer
            refused = (address, answer)
            if answer.code not in ANOTHER_MAY_KNOW:
                break
        if refused is not None:
            return refused
        raise self.unreachable(failures)

    async def _ask(self, address: str, request: Header, body: bytes, timeout_s: float) -> Frame:
        """Ask one server; again when it closed the connection, as it does with those that were idle."""
        asked_at = self._clock.monotonic()
        try:
            return await self._call(address, request, body, timeout_s)
        except Unreachable:
            left_s = timeout_s - (self._clock.monotonic() - asked_at)
            if self._is_ailing(address) or left_s <= 0:
                raise
            return await self._call(address, request, body, left_s)

    async def call_all(self, request: Header, body: bytes, timeout_s: float) -> dict[str, Frame]:
        """Ask every name server and return all answers; raises the first failure after asking all."""
        answers: dict[str, Frame] = {}
        failure: RoquetError | None = None
        for address in self.addresses:
            try:
                answer = await self._ask(address, request, body, timeout_s)
            except (Unreachable, TimedOut) as error:
                failure = failure or error
                continue
            answers[address] = answer
            if answer.code != Code.SUCCESS:
                name = row_of(type(request)).name
                failure = failure or refusal(answer.code, answer.remark, address, name)
        if failure is not None:
            raise failure
        return answers

    def unreachable(self, failures: Sequence[str]) -> NamesUnreachable:
        """Return the error that tells of each server why it did not answer."""
        if not self.addresses:
            return NamesUnreachable(f"{self.list_url} lists no name servers yet")
        return NamesUnreachable(f"no name server answers: {'; '.join(failures)}")
