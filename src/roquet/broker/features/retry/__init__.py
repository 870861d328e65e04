"""Retries and dead letters: what a consumer could not use comes again later, or is put aside for people.

    36 send-back ─▶ drafts.again ─▶ delay level ─▶ SCHEDULE_TOPIC_XXXX ─▶ %RETRY%<group>
                  └ tried too often, or level < 0 ─▶ drafts.aside ─▶ %DLQ%<group>
    send to %RETRY%<group> (a client's own way) ─▶ as it is, or %DLQ%<group>

`policy` chooses the level, `drafts` are the rewrites; both pure. Compatibility: AbstractSendMessageProcessor
and SendMessageProcessor of Apache 5.5.0.
"""

from roquet.broker.features.retry.feature import Retry

__all__ = ["Retry"]
