"""Transactions: 37 ends one, 39 asks its producer about it, 323 takes a given-up one up again."""

from __future__ import annotations

from roquet.wire.row import Header, Int32, named, request


@request(37, "END_TRANSACTION", to="broker", touches=("topic", "pub"))
class EndTransaction(Header):
    """Commit (8) or roll back (12) a half message; 0 says that nothing is known yet and gets no answer.

    `tran_state_table_offset` is the half's queue offset, `commit_log_offset` its place in the log: both as
    the answer to its send, or the question 39, had them.
    """

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    msg_id: str
    topic: str | None = None
    from_transaction_check: bool = False
    transaction_id: str | None = None
    broker_name: str | None = named("bname", default=None)


@request(39, "CHECK_TRANSACTION_STATE", to="client")
class CheckTransaction(Header):
    """Ask a producer how a transaction ended; one-way, the body is the half message."""

    tran_state_table_offset: int
    commit_log_offset: int
    topic: str | None = None
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = named("bname", default=None)


@request(323, "RESUME_CHECK_HALF_MESSAGE", to="broker", touches=("topic", "update"), admin=True)
class ResumeCheck(Header):
    """Ask about a transaction again that was given up after too many questions."""

    topic: str | None = None
    msg_id: str | None = None


@request(30_037, "END_HALVES", to="broker", touches=("topic", "pub"))
class EndHalves(Header):
    """Commit (8) or roll back (12) many half messages, in their order; Roquet's own.

    The body is queue offset and log offset of each, 8 bytes and 8 bytes. Ending one twice has one effect. An
    empty body asks whether a broker knows the request; others answer that they do not. It is refused as a
    whole with the first reason, while those that could be ended are.
    """

    producer_group: str
    commit_or_rollback: Int32
    topic: str | None = None
