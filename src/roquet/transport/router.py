"""From a request code to its handler: decode, check access, run, answer. The same for both programs.

    call ─▶ row of the code ─▶ admin only from loopback? ─▶ header.decode ─▶ handler(request, call)
                                                                              ├ Reply     answered here
                                                                              ├ PARKED    answered later
                                                                              └ coroutine run by `Tasks`

Handlers are filed by the class of their request; codes, names and rights come from the table. Knows
nothing of what a request means.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from roquet.transport.link import Call, Link
from roquet.transport.tasks import Tasks, failure, send
from roquet.wire.codes import FLAG_REPLY, Code
from roquet.wire.frame import Frame
from roquet.wire.reply import Deferred, Outcome, Reply
from roquet.wire.row import TABLE, FieldError, Header, Row, row_of

Handler = Callable[[Any, Call], Outcome | Coroutine[Any, Any, Outcome]]

RunHandler = Callable[[Link, list[Frame], int], int]
"""Takes frames of its code from a place on; returns how many it has taken care of, answers included."""


class _Route(NamedTuple):
    row: Row
    handler: Handler


class Router:
    """Answers the calls of every link of one program."""

    def __init__(
        self,
        handlers: Mapping[type[Header], Handler],
        may_administer: Callable[[Call], bool],
        tasks: Tasks,
        runs: Mapping[type[Header], RunHandler] | None = None,
    ) -> None:
        self._runs = {row_of(request).code: handler for request, handler in (runs or {}).items()}
        self._routes = {
            row_of(request).code: _Route(row_of(request), handler) for request, handler in handlers.items()
        }
        self._may_administer = may_administer
        self._tasks = tasks

    @property
    def codes(self) -> frozenset[int]:
        return frozenset(self._routes)

    def without(self, *requests: type[Header]) -> Router:
        """Return a router that does not answer the given requests, for a port that must not serve them."""
        handlers = {
            route.row.header: route.handler
            for route in self._routes.values()
            if route.row.header not in requests
        }
        runs = {TABLE[code].header: handler for code, handler in self._runs.items()}
        return Router(handlers, self._may_administer, self._tasks, runs)

    def serve_run(self, link: Link, frames: list[Frame], start: int) -> int:
        """Serve the next frame, or all up to the next one that comes by itself; returns how many.

        Frames of codes that are taken together are sorted by code: a producer that ends one transaction and
        begins the next has them in turns. Among those of one code the order stays.
        """
        if frames[start].code not in self._runs:
            self.serve(Call(link, frames[start]))
            return 1
        by_code: dict[int, list[Frame]] = {}
        count = 0
        for frame in frames[start:]:
            if frame.code not in self._runs or frame.flag & FLAG_REPLY:
                break
            by_code.setdefault(frame.code, []).append(frame)
            count += 1
        for code, some in by_code.items():
            self._serve_together(link, self._runs[code], some)
        return count

    def _serve_together(self, link: Link, run: RunHandler, frames: list[Frame]) -> None:
        at = 0
        while at < len(frames):
            taken = run(link, frames, at)
            if not taken:
                self.serve(Call(link, frames[at]))
            at += taken or 1

    def serve(self, call: Call) -> None:
        """Handle one call; whatever goes wrong becomes an answer, never an exception."""
        route = self._routes.get(call.frame.code)
        if route is None:
            call.answer(Reply(Code.REQUEST_CODE_NOT_SUPPORTED, remark=_not_supported(call.frame.code)))
            return
        row = route.row
        if row.admin and not self._may_administer(call):
            call.answer(Reply(Code.NO_PERMISSION, remark=_not_from_there(row, call)))
            return
        try:
            outcome = route.handler(row.header.decode(call.frame.ext), call)
        except FieldError as error:
            outcome = Reply(Code.SYSTEM_ERROR, remark=f"{row.name}: {error}")
        except Exception as error:  # a mistake of ours must not take the connection down
            outcome = failure(call, error)
        if isinstance(outcome, Reply):
            send(call, outcome)
        elif not isinstance(outcome, Deferred):
            self._tasks.run(call, outcome)


def _not_supported(code: int) -> str:
    row = TABLE.get(code)
    name = f" ({row.name})" if row is not None else ""
    return f" request type {code}{name} not supported"


def _not_from_there(row: Row, call: Call) -> str:
    return (
        f"{row.name} changes the server and is answered only for loopback peers while access control is "
        f"off; you are {call.link.peer[0]}. Run the tool on the server itself, or set adminFromAnywhere=true"
    )
