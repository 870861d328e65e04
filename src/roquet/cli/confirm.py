"""Ask before something is gone for good."""

from __future__ import annotations

import sys

import typer


def confirm(question: str, is_sure: bool) -> None:
    """Return when the user agrees; a script must say so with --yes."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to ask: say --yes")
    if not typer.confirm(question, err=True):
        raise typer.Exit(1)
