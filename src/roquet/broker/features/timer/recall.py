"""RECALL_MESSAGE: take a timed message back before it is due.

A handle leads to the message's slot; a marker that is parked for the same slot cancels it there. So the
answer says that the marker is stored, not that the message was still waiting. Checks and codes are those of
Apache's RecallMessageProcessor, 5.5.0; `recallMessageEnable` is off unless set, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from roquet.broker.core.pipeline import Pipeline
from roquet.broker.core.redraft import keys_of
from roquet.broker.core.topics import Topics
from roquet.broker.features.timer import terms
from roquet.broker.features.timer.handle import Handle, parse_handle
from roquet.model.message import Draft, Host, SysFlag, format_properties, java_hash
from roquet.model.status import Appended
from roquet.model.topic import Perm
from roquet.ports import Clock
from roquet.runtime.settings import BrokerSettings, Role
from roquet.store.settings import StoreSettings
from roquet.transport.link import Call
from roquet.wire.codes import Code
from roquet.wire.reply import PARKED, Outcome, Refusal, Reply
from roquet.wire.requests.timer import Recall, Recalled, RecallRefused

TAG: Final = "_RECALL_TAG_"
BODY: Final = b"0"


class Recalls:
    """Answers 370."""

    def __init__(
        self,
        topics: Topics,
        pipeline: Pipeline,
        clock: Clock,
        store_v6: bool,
        settings: Callable[[], BrokerSettings],
        store_settings: Callable[[], StoreSettings],
    ) -> None:
        self._topics = topics
        self._pipeline = pipeline
        self._clock = clock
        self._store_v6 = store_v6
        self._settings = settings
        self._store_settings = store_settings

    def recall(self, request: Recall, call: Call) -> Outcome:
        """Park the marker that cancels a message; the answer leaves when it is stored."""
        handle = self._checked(request)
        draft, properties = self._marker(handle, request.producer_group or "", call)
        try:
            prepared = self._pipeline.prepare(draft, properties)
        except Refusal as refusal:
            raise self._refusal(Code.SYSTEM_ERROR, f"recall failed: {refusal.reply.remark}") from None

        def done(result: Appended) -> None:
            if result.log_offsets:
                call.answer(Reply(header=Recalled(handle.unique_key, self._settings().region_id)))
            else:
                reason = result.reason or result.status.value
                call.answer(self._refusal(Code.SYSTEM_ERROR, f"recall failed, execute error: {reason}").reply)

        self._pipeline.append((prepared.draft,), done)
        return PARKED

    def _checked(self, request: Recall) -> Handle:
        """Return what is to be recalled; raises Refusal."""
        settings, now_ms = self._settings(), self._clock.now_ms()
        if not settings.recall_message:
            raise self._refusal(
                Code.NO_PERMISSION, "recall failed, operation is forbidden: recallMessageEnable=false"
            )
        if settings.role is Role.SLAVE:
            raise self._refusal(Code.SLAVE_NOT_AVAILABLE, "recall failed, broker service not available")
        is_writable = settings.permission & Perm.WRITE or settings.recall_when_not_writable
        if now_ms < settings.start_accept_send_ms or not is_writable:
            raise self._refusal(Code.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available")
        if self._topics.get(request.topic) is None:
            raise self._refusal(
                Code.TOPIC_NOT_EXIST, f"recall failed, the topic[{request.topic[:80]}] not exist"
            )
        try:
            handle = parse_handle(request.recall_handle)
        except ValueError as error:
            raise self._refusal(Code.ILLEGAL_OPERATION, str(error)) from None
        if handle.topic != request.topic:
            raise self._refusal(Code.ILLEGAL_OPERATION, "recall failed, topic not match")
        if handle.broker_name != settings.broker_name:
            raise self._refusal(Code.ILLEGAL_OPERATION, "recall failed, broker service not available")
        if not 0 < handle.ms - now_ms < self._store_settings().timer_max_delay_s * 1000:
            raise self._refusal(
                Code.ILLEGAL_OPERATION, "recall failed, timestamp invalid: the message is due already"
            )
        return handle

    def _marker(self, handle: Handle, group: str, call: Call) -> tuple[Draft, dict[str, str]]:
        now_ms = self._clock.now_ms()
        key = handle.unique_key
        if self._store_settings().timer_delete_key_with_topic:
            key = f"{handle.topic}+{key}"
        properties = {
            "TAGS": TAG,
            terms.DELETE_NAME: key,
            "UNIQ_KEY": handle.unique_key,
            "TIMER_DELIVER_MS": str(handle.ms),
            "BORN_TIMESTAMP": str(now_ms),
            "PGROUP": group,
        }
        address = ip_address(call.link.peer[0].partition("%")[0] or "0.0.0.0")
        born = Host((getattr(address, "ipv4_mapped", None) or address).packed, call.link.peer[1])
        sys_flag = int(SysFlag.BORN_HOST_V6) if born.is_v6 else 0
        sys_flag |= int(SysFlag.STORE_HOST_V6) if self._store_v6 else 0
        text = format_properties(properties).encode()
        draft = Draft(
            handle.topic, 0, BODY, text, 0, sys_flag, now_ms, born, 0, 0, java_hash(TAG), keys_of(properties)
        )
        return draft, properties

    def _refusal(self, code: int, remark: str) -> Refusal:
        return Refusal(code, remark, RecallRefused(self._settings().region_id))
