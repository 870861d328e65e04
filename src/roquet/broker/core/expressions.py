"""Subscriptions that are more than tags, as far as pulls and heartbeats care.

A feature that understands a type of expression (`SQL92`) is handed out under its name by the hook
`expressions()`. Without one, such subscriptions are refused. Tags need no feature.
"""

from __future__ import annotations

from typing import Final, Protocol

from roquet.model.match import Accept, Noted

TAG: Final = "TAG"


class Expressions(Protocol):
    """One type of expression."""

    def check(self, expression: str) -> None:
        """Raise the Refusal that a client gets for an expression that cannot be used."""
        ...

    def of_request(self, topic: str, group: str, expression: str) -> Accept:
        """Return what an expression that came with a pull accepts; raises Refusal."""
        ...

    def of_group(self, topic: str, group: str, sub_version: int) -> Accept:
        """Return what a group's own subscription accepts, as its heartbeats told; raises Refusal."""
        ...

    def noted(self, topic: str, group: str) -> tuple[str, Noted] | None:
        """Return what is kept of a group's expression, as text and as a selector; None when nothing is."""
        ...
