"""A transaction as a block, without a broker: which end it tells, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from roquet.client.errors import Misuse, SendFailed, TransactionUnsettled
from roquet.client.message import Receipt
from roquet.client.producer.transaction import Half, Outcome


class Desk:
    """Takes note of ends; `is_silent` makes it confirm none."""

    def __init__(self, status: str = "ok", *, is_silent: bool = False) -> None:
        self.ends: list[Outcome] = []
        self.status = status
        self.is_silent = is_silent

    def half(self) -> Half:
        return Half(self.send, self.end)

    async def send(self) -> Receipt:
        return Receipt("ID", "PLACE", "orders", "broker-a", 0, 0, self.status)

    async def end(self, receipt: Receipt, outcome: Outcome) -> None:
        self.ends.append(outcome)
        if self.is_silent:
            raise TransactionUnsettled(f"{outcome} was not confirmed")


def play(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_the_end_of_the_block_commits() -> None:
    async def scenario() -> None:
        desk = Desk()
        async with desk.half() as half:
            assert half.message_id == "ID" and desk.ends == []
        assert desk.ends == ["commit"]

    play(scenario())


@pytest.mark.parametrize("error", [KeyError("x"), asyncio.CancelledError()])
def test_an_exception_rolls_back(error: BaseException) -> None:
    async def scenario() -> None:
        desk = Desk()
        with pytest.raises(type(error)):
            async with desk.half():
                raise error
        assert desk.ends == ["rollback"]

    play(scenario())


def test_an_unknown_end_tells_nothing() -> None:
    async def scenario() -> None:
        desk = Desk()
        with pytest.raises(KeyError):
            async with desk.half() as half:
                half.leave_unknown()
                raise KeyError
        assert desk.ends == []

    play(scenario())


def test_an_end_by_hand_is_the_only_one() -> None:
    async def scenario() -> None:
        desk = Desk()
        async with desk.half() as half:
            await half.rollback()
            with pytest.raises(Misuse, match="ended already: rollback"):
                await half.commit()
        assert desk.ends == ["rollback"]

    play(scenario())


def test_a_half_that_is_stored_badly_is_taken_back_before_any_work() -> None:
    async def scenario() -> None:
        desk = Desk("slave-not-available")
        with pytest.raises(SendFailed, match="only with slave-not-available"):
            async with desk.half():
                raise AssertionError("the block must not run")
        assert desk.ends == ["rollback"]

    play(scenario())


def test_a_commit_that_is_not_confirmed_raises() -> None:
    async def scenario() -> None:
        with pytest.raises(TransactionUnsettled, match="commit"):
            async with Desk(is_silent=True).half():
                pass

    play(scenario())


def test_before_it_begins_there_is_no_receipt() -> None:
    with pytest.raises(Misuse, match="async with"):
        _ = Desk().half().receipt
