"""Transactions: a message that nobody sees until the work that belongs to it is done.

    async with producer.transaction("orders", b"...") as half:     # stored, invisible
        await database.save(order)                                 # your own work
    # here it is visible; an exception in the block takes it back

    half ─┬─▶ commit (8) ────▶ visible
          ├─▶ rollback (12) ─▶ gone
          └─▶ unknown ───────▶ the broker asks (39) ─▶ check(message) ─▶ commit, rollback or unknown

The broker confirms the end. When it does not, or this process dies, it asks a producer of the group.
Knows nothing of how messages are sent. Requests 37 and 39. Reference: TransactionMQProducer of Apache 5.5.0.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Literal, Protocol

from roquet.client.cluster.cluster import Cluster
from roquet.client.core.namespace import unwrap
from roquet.client.errors import Attempt, Misuse, Refused, RoquetError, SendFailed, TransactionUnsettled
from roquet.client.hooks import Hook, told
from roquet.client.message import Message, Outgoing, Receipt
from roquet.model.ids import parse_offset_id
from roquet.store.format import record
from roquet.transport.link import Link
from roquet.wire.header import Frame
from roquet.wire.reply import OK, Reply
from roquet.wire.requests.transaction import CheckTransaction, EndTransaction
from roquet.wire.row import Header

log = logging.getLogger("roquet.client.producer")

Outcome = Literal["commit", "rollback", "unknown"]
CheckFunction = Callable[[Message], Outcome | Awaitable[Outcome]]
"""Tells how the transaction of a half message ended; "unknown" is asked again later."""

NUMBERS: Final[dict[Outcome, int]] = {"commit": 8, "rollback": 12, "unknown": 0}
CHECKS_MAX: Final = 2_000
"""Questions of brokers that may be open at once; more are left to the broker's next round."""


class Half(AbstractAsyncContextManager["Half"]):
    """A transaction as a block: commits at its end, rolls back when it raises."""

    def __init__(self, send: Callable[[], Awaitable[Receipt]], end: _End) -> None:
        self._send = send
        self._end = end
        self._receipt: Receipt | None = None
        self._outcome: Outcome | None = None

    @property
    def receipt(self) -> Receipt:
        """Where the half message lies; `message_id` is the one that consumers will see."""
        if self._receipt is None:
            raise Misuse("the transaction has not begun", hint="use it with `async with`")
        return self._receipt

    @property
    def message_id(self) -> str:
        return self.receipt.message_id

    def leave_unknown(self) -> None:
        """End the block without a decision: the broker will ask the check function."""
        self._outcome = "unknown"

    async def commit(self) -> None:
        """Make the message visible now; raises TransactionUnsettled when the broker does not confirm."""
        await self._settle("commit")

    async def rollback(self) -> None:
        """Take the message back now; raises TransactionUnsettled when the broker does not confirm."""
        await self._settle("rollback")

    async def __aenter__(self) -> Half:
        if self._receipt is not None:
            raise Misuse("a transaction is used once", hint="make a new one with producer.transaction(...)")
        self._receipt = receipt = await self._send()
        if receipt.status != "ok":
            # Stored, but not as safely as the broker promises: the local work must not lean on it.
            await self._settle("rollback")
            weak = Refused(f"the half message is stored only with {receipt.status}", retriable=True)
            raise SendFailed(receipt.topic, [Attempt(receipt.broker, weak)])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outcome is not None:
            return
        if error is None:
            await self._settle("commit")
            return
        try:
            await self._settle("rollback")
        except TransactionUnsettled as unsettled:
            error.add_note(f"{unsettled}")

    async def _settle(self, outcome: Outcome) -> None:
        if self._outcome is not None:
            raise Misuse(f"the transaction has ended already: {self._outcome}")
        self._outcome = outcome
        await self._end(self.receipt, outcome)


class _End(Protocol):
    async def __call__(self, receipt: Receipt, outcome: Outcome) -> None: ...


class Transactions:
    """Ends the transactions of one producer group and answers brokers that ask about them."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        check: CheckFunction | None,
        hooks: Sequence[Hook],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._check = check
        self._hooks = hooks
        self._spawn = spawn
        self._open_checks = 0

    def open(self) -> None:
        """Listen to brokers that ask."""
        if self._check is not None:
            self._cluster.answer(CheckTransaction, self.asked)

    def close(self) -> None:
        if self._check is not None:
            self._cluster.unanswer(CheckTransaction, self.asked)

    async def end(self, topic: str, message: Outgoing, receipt: Receipt, outcome: Outcome) -> None:
        """Tell the broker how a transaction ended; raises TransactionUnsettled when it does not confirm."""
        _, log_offset = parse_offset_id(receipt.offset_id)
        request = EndTransaction(
            self._group,
            receipt.queue_offset,
            log_offset,
            NUMBERS[outcome],
            receipt.message_id,
            topic,
            False,
            receipt.transaction_id or None,
            receipt.broker,
        )
        try:
            view = await self._cluster.publish_route(topic)
            await self._cluster.ask(view.master(receipt.broker), request)
        except RoquetError as error:
            raise TransactionUnsettled(
                f"{outcome} of {receipt.message_id} was not confirmed: {error.what}", code=error.code
            ) from error
        self._tell_hooks(message, receipt, outcome, is_check=False)

    def asked(self, request: Header, frame: Frame, link: Link) -> Reply | None:
        """A broker asks (39); the answer is a request of its own, sent when the check function has spoken."""
        assert isinstance(request, CheckTransaction) and self._check is not None
        half = record.decode(frame.body, 0)
        bare = half._replace(topic=unwrap(self._cluster.namespace, half.topic))
        message = Message(bare, request.broker_name or "")
        if message.properties.get("PGROUP") != self._group:
            return None
        if self._open_checks < CHECKS_MAX:
            self._open_checks += 1
            self._spawn(self._answer(self._check, request, half.topic, message, link), "check a transaction")
        return OK

    async def _answer(
        self, check: CheckFunction, request: CheckTransaction, topic: str, message: Message, link: Link
    ) -> None:
        try:
            outcome = await _asked(check, message)
            end = EndTransaction(
                self._group,
                request.tran_state_table_offset,
                request.commit_log_offset,
                NUMBERS[outcome],
                message.message_id,
                topic,
                True,
                request.transaction_id or message.message_id,
                request.broker_name,
            )
            link.send_one_way(end)
            receipt = Receipt(
                message.message_id,
                request.offset_msg_id or message.offset_id,
                message.topic,
                message.broker,
                message.queue_id,
                request.tran_state_table_offset,
                transaction_id=end.transaction_id or "",
            )
            sent = Outgoing(topic=message.topic, body=b"", tag=message.tag, keys=message.keys)
            self._tell_hooks(sent, receipt, outcome, is_check=True)
        finally:
            self._open_checks -= 1

    def _tell_hooks(self, message: Outgoing, receipt: Receipt, outcome: Outcome, *, is_check: bool) -> None:
        for hook in self._hooks:
            told(hook.after_end_transaction, self._group, message, receipt, outcome, is_check)


async def _asked(check: CheckFunction, message: Message) -> Outcome:
    """Return what the check function says; "unknown" when it fails, so that the broker asks again."""
    try:
        given = check(message)
        outcome = await given if inspect.isawaitable(given) else given
    except Exception:
        log.exception("the check function failed for %r; the broker will ask again", message)
        return "unknown"
    if outcome not in NUMBERS:
        log.error(
            "the check function returned %r for %r: it must be commit, rollback or unknown", outcome, message
        )
        return "unknown"
    return outcome
