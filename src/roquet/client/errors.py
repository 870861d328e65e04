"""Everything that can go wrong, as one tree; each error says in words what to do about it.

    RoquetError                    code · retriable · hint
    ├─ Misuse                      a wrong argument or a wrong moment (also a ValueError)
    │  ├─ Closed                   the client was closed, or not opened
    │  └─ Forked                   the client belongs to the process that forked this one
    ├─ Unreachable                 no connection (also a ConnectionError)
    │  └─ NamesUnreachable         none of the name servers answered
    ├─ TimedOut                    no answer in time; it may have happened all the same (also a TimeoutError)
    ├─ NoRoute                     nobody serves the topic
    ├─ Refused                     a server answered no, with its code
    │  ├─ Busy                     too much at once: try again a little later
    │  ├─ NotAllowed               permission, or a topic that is not writable or readable
    │  ├─ NotFound                 no such topic, group, message, offset, client …
    │  ├─ BadMessage               the message breaks a rule: size, name, property, delay, declared type
    │  └─ BadExpression            a subscription that does not parse
    ├─ SendFailed                  all attempts used up; `attempts` tells each of them
    ├─ TransactionUnsettled        a transaction's outcome is not known yet: the server will ask for it
    └─ ReplyLost                   a request was sent and no reply came in time

`code` is the protocol's own number (0 when no server spoke), `retriable` whether the same call may
succeed later without a change. The table of codes is data at the end; unknown codes are plain Refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from roquet.wire.codes import Code


class RoquetError(Exception):
    """Any error of the client."""

    retriable: bool = False
    default_hint: ClassVar[str] = ""

    def __init__(self, what: str, *, hint: str = "", code: int = 0, retriable: bool | None = None) -> None:
        self.what = what
        self.code = code
        self.hint = hint or self.default_hint
        if retriable is not None:
            self.retriable = retriable
        super().__init__(f"{what}; {self.hint}" if self.hint else what)


class Misuse(RoquetError, ValueError):
    """A wrong argument, or a call at the wrong moment."""


class Closed(Misuse):
    """The client is closed."""

    default_hint = "open it with `async with` and use it inside"


class Forked(Misuse):
    """The client was made before a fork and is used in the child."""

    default_hint = "connections do not survive a fork: make a new client in the child process"


class Unreachable(RoquetError, ConnectionError):
    """A server cannot be reached, or the connection broke before the answer."""

    retriable = True


class NamesUnreachable(Unreachable):
    """None of the name servers answers."""

    default_hint = "is one running there? `roquet up` starts a name server and a broker"


class TimedOut(RoquetError, TimeoutError):
    """No answer in time. Whether the server has done it is not known."""

    retriable = True


class NoRoute(RoquetError):
    """No broker serves the topic."""

    def __init__(
        self, topic: str, asked: Sequence[str], *, why: str = "auto-creation is off", hint: str = ""
    ) -> None:
        super().__init__(
            f"no route for topic {topic}: asked {', '.join(asked)}; {why}",
            hint=hint or f"create it with `roquet topic create {topic}`",
            code=Code.TOPIC_NOT_EXIST,
            retriable=True,
        )
        self.topic = topic


class Refused(RoquetError):
    """A server answered with a code that means no."""


class Busy(Refused):
    """The server has too much to do."""

    retriable = True
    default_hint = "the server is overloaded: try again a little later, or send less at once"


class NotAllowed(Refused):
    """Permission is missing."""


class NotFound(Refused):
    """What the request names does not exist."""


class BadMessage(Refused):
    """The message breaks a rule of the server."""


class BadExpression(Refused):
    """A subscription that the server cannot read."""


class Attempt(NamedTuple):
    """One try to send: where to, and what came of it."""

    broker: str
    error: RoquetError


class SendFailed(RoquetError):
    """Every attempt to send failed. A time-out among them means that the message may be stored."""

    def __init__(self, topic: str, attempts: Sequence[Attempt]) -> None:
        last = attempts[-1].error
        tried = ", ".join(f"{attempt.broker}: {attempt.error.what}" for attempt in attempts)
        super().__init__(
            f"could not send to {topic} ({len(attempts)} tries: {tried})",
            hint=last.hint,
            code=last.code,
            retriable=last.retriable,
        )
        self.attempts = tuple(attempts)


class TransactionUnsettled(RoquetError):
    """The end of a transaction was not confirmed."""

    retriable = True
    default_hint = "the server will ask the group's check function"


class ReplyLost(RoquetError, TimeoutError):
    """The request is stored, but nobody replied in time."""

    retriable = True
    default_hint = "is a consumer running that replies to this topic?"


BY_CODE: Final[Mapping[int, type[Refused]]] = {
    Code.SYSTEM_BUSY: Busy,
    Code.SERVICE_NOT_AVAILABLE: Busy,
    Code.GO_AWAY: Busy,
    Code.NO_PERMISSION: NotAllowed,
    Code.TOPIC_NOT_EXIST: NotFound,
    Code.QUERY_NOT_FOUND: NotFound,
    Code.SUBSCRIPTION_GROUP_NOT_EXIST: NotFound,
    Code.CONSUMER_NOT_ONLINE: NotFound,
    Code.NO_MESSAGE: NotFound,
    Code.MESSAGE_ILLEGAL: BadMessage,
    Code.SUBSCRIPTION_PARSE_FAILED: BadExpression,
}
"""Which error an answer's code becomes."""

HINTS: Final[Mapping[int, str]] = {
    Code.REQUEST_CODE_NOT_SUPPORTED: "its release is too old for this, or it is not built to do it",
    Code.SERVICE_NOT_AVAILABLE: "the broker takes no messages now: a full disk, or it is a slave",
    Code.TOPIC_NOT_EXIST: "create it with `roquet topic create`",
    Code.SUBSCRIPTION_GROUP_NOT_EXIST: "create it with `roquet group create`",
    Code.MESSAGE_ILLEGAL: "check size, topic name, properties and delay",
}

RETRIABLE: Final = frozenset(
    {
        Code.SYSTEM_ERROR,
        Code.SYSTEM_BUSY,
        Code.SERVICE_NOT_AVAILABLE,
        Code.TOPIC_NOT_EXIST,
        Code.SUBSCRIPTION_NOT_EXIST,
        Code.SUBSCRIPTION_NOT_LATEST,
        Code.GO_AWAY,
    }
)
"""Codes that another try, perhaps at another broker, may get round."""


def refusal(code: int, remark: str, address: str, request: str) -> Refused:
    """Return the error for an answer that is not a success."""
    kind = BY_CODE.get(code, Refused)
    what = f"{address} refused {request}: {remark or 'no reason given'} (code {code})"
    return kind(what, code=code, hint=HINTS.get(code, ""), retriable=code in RETRIABLE)
