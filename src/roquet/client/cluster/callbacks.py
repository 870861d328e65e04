"""What brokers ask of a client: filed by request, offered to one member after another.

    call ─▶ handler ─▶ Reply       sent back (nothing goes out for a one-way request)
                    ├▶ None        not mine: the next handler is asked
                    └▶ awaitable   run by `Tasks`, then the same
                       nobody      code 3, as every client answers what it does not know

Knows no request by name and no member.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from roquet.transport.link import Call, Link
from roquet.transport.tasks import Tasks, failure, send
from roquet.wire.codes import Code
from roquet.wire.frame import Frame
from roquet.wire.reply import Outcome, Reply
from roquet.wire.row import TABLE, FieldError, Header, row_of

Handler = Callable[[Any, Frame, Link], Reply | Awaitable[Reply | None] | None]


class Callbacks:
    """The handlers of all members of one client."""

    def __init__(self) -> None:
        self._handlers: dict[int, list[Handler]] = {}
        self._tasks = Tasks()

    def add(self, request: type[Header], handler: Handler) -> None:
        """Offer requests of this kind to the handler, after those that came before it."""
        self._handlers.setdefault(row_of(request).code, []).append(handler)

    def remove(self, request: type[Header], handler: Handler) -> None:
        """Offer it no more; one that is not there is fine."""
        handlers = self._handlers.get(row_of(request).code, [])
        if handler in handlers:
            handlers.remove(handler)

    def serve(self, call: Call) -> None:
        """Answer one request of a broker; whatever goes wrong becomes an answer, never an exception."""
        handlers = tuple(self._handlers.get(call.frame.code, ()))
        if not handlers:
            send(call, _unknown(call.frame.code))
            return
        try:
            request = TABLE[call.frame.code].header.decode(call.frame.ext)
            for index, handler in enumerate(handlers):
                reply = handler(request, call.frame, call.link)
                if inspect.isawaitable(reply):
                    self._tasks.run(call, self._go_on(call, request, reply, handlers[index + 1 :]))
                    return
                if reply is not None:
                    send(call, reply)
                    return
        except FieldError as error:
            send(call, Reply(Code.SYSTEM_ERROR, remark=str(error)))
        except Exception as error:  # a mistake in a handler must not take the connection down
            send(call, failure(call, error))
        else:
            send(call, _unknown(call.frame.code))

    async def close(self) -> None:
        """Break off what is still at work."""
        await self._tasks.close()

    async def _go_on(
        self, call: Call, request: Header, first: Awaitable[Reply | None], rest: tuple[Handler, ...]
    ) -> Outcome:
        reply = await first
        for handler in rest:
            if reply is not None:
                break
            given = handler(request, call.frame, call.link)
            reply = await given if inspect.isawaitable(given) else given
        return _unknown(call.frame.code) if reply is None else reply


def _unknown(code: int) -> Reply:
    row = TABLE.get(code)
    name = str(code) if row is None else f"{code} ({row.name})"
    remark = f"nobody in this client answers request {name}"
    return Reply(Code.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
