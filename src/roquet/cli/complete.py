"""Names of topics and groups for shell completion: asked of the cluster, quickly or not at all.

A completion must never print an error or keep the shell waiting: without an answer within a second there
are no suggestions.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from roquet.client.admin import Admin

    Ask = Callable[[Admin], Awaitable[tuple[str, ...]]]

TIMEOUT_S: Final = 1.0


def topics(context: typer.Context, incomplete: str) -> list[str]:
    """Return the users' topics that begin so."""

    async def ask(admin: Admin) -> tuple[str, ...]:
        from roquet.model.names import is_dead_letter, is_retry, is_system

        found = await admin.topics.list()
        is_special = incomplete.startswith("%")
        return tuple(
            name
            for name in found
            if not is_system(name) and (is_special or not (is_retry(name) or is_dead_letter(name)))
        )

    return _suggest(context, incomplete, ask)


def groups(context: typer.Context, incomplete: str) -> list[str]:
    """Return the users' groups that begin so."""

    async def ask(admin: Admin) -> tuple[str, ...]:
        return await admin.groups.list()

    return _suggest(context, incomplete, ask)


def _suggest(context: typer.Context, incomplete: str, ask: Ask) -> list[str]:
    import asyncio

    from roquet.client.admin import Admin
    from roquet.client.errors import RoquetError

    namesrv = str(
        context.params.get("namesrv")
        or os.environ.get("ROQUET_NAMESRV")
        or os.environ.get("NAMESRV_ADDR")
        or "127.0.0.1:9876"
    )

    async def work() -> tuple[str, ...]:
        async with asyncio.timeout(TIMEOUT_S), Admin(namesrv, timeout=TIMEOUT_S) as admin:
            return await ask(admin)

    try:
        return [name for name in asyncio.run(work()) if name.startswith(incomplete)]
    except (RoquetError, TimeoutError):
        return []
