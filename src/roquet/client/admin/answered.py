"""Values out of answers: what cannot be read becomes an error of the client that says so.

Bodies are read by `wire.bodies`, headers by their declared classes; tables that come in pages end where the
broker says how many entries there are, or sends no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from roquet.client.errors import Refused
from roquet.wire.bodies import answers
from roquet.wire.bodies.registration import BodyError
from roquet.wire.frame import Frame
from roquet.wire.row import FieldError, Header

Value = TypeVar("Value")
Head = TypeVar("Head", bound=Header)

PAGE: Final = 2_000
"""Entries of a table asked for at once, as many as a broker gives."""


class BadAnswer(Refused):
    """A server's answer cannot be read."""

    default_hint = "is it Roquet, or RocketMQ 4.9 or later? what it sent is not what this release reads"


def read(decode: Callable[[bytes], Value], answer: Frame) -> Value:
    """Return what a decoder makes of a body; raises BadAnswer."""
    try:
        return decode(answer.body)
    except BodyError as error:
        raise BadAnswer(f"the answer cannot be read: {error}") from None


def shaped(answer: Frame, shape: type[Value]) -> Value:
    """Return a body as a struct; raises BadAnswer."""
    return read(lambda body: answers.decode(body, shape), answer)


def listed(answer: Frame, member: str) -> list[str]:
    """Return a list of names in a body; an empty body lists nothing."""
    return read(lambda body: answers.texts(body, member), answer) if answer.body else []


def head(answer: Frame, kind: type[Head]) -> Head:
    """Return the typed header of an answer; raises BadAnswer."""
    try:
        return kind.decode(answer.ext)
    except FieldError as error:
        raise BadAnswer(f"the answer cannot be read: {error}") from None


def is_last_page(answer: Frame, known: int, before: int) -> bool:
    """True when a table is complete: the broker sends no pages, or none is left."""
    total = answer.ext.get("totalTopicNum") or answer.ext.get("totalGroupNum") or ""
    return not total.isdecimal() or known >= int(total) or known == before
