"""OpenTelemetry spans for sends and deliveries, by the conventions for messaging systems.

    send one       "send orders"      PRODUCER, its context travels in the message (traceparent)
    send several   "send orders"      CLIENT, with a link to a "create orders" span of each message
    consume        "process orders"   CONSUMER, with a link to where each message was created

`automatic` gives the hook when the program has set a tracer provider, and nothing otherwise: then a client
pays for one look at the loaded modules. Needs the extra `otel`. Reference: OpenTelemetry's semantic
conventions for messaging spans, and those for RocketMQ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from roquet.client.hooks import Consuming, Hook, Sending

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, TracerProvider

    from roquet.client.message import Message, Outgoing, Receipt

SYSTEM: Final = "rocketmq"
TYPES: Final = {"delay": "delay", "order": "fifo", "transaction": "transaction"}
"""Our kinds of sends by the names of the conventions; all others are normal."""

OUTSIDE: Final = "roquet.outside"
"""Under this name a delivery's context keeps the one around it."""

Value = str | int | Sequence[str]


def automatic() -> tuple[Hook, ...]:
    """Return the hook when OpenTelemetry is loaded and a tracer provider is set; else nothing."""
    # A program that sets a provider has loaded the package: no need to search for it on the disk.
    if "opentelemetry.trace" not in sys.modules:
        return ()
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return ()
    return (OpenTelemetry(provider),)


class Sent(NamedTuple):
    """What a send began: the span of the request, and those of its messages where they have their own."""

    span: Span
    created: Sequence[Span]


class Handed(NamedTuple):
    """What a delivery began: its span, and what was current before."""

    span: Span
    outside: Context


class OpenTelemetry(Hook):
    """The hook; give it to a client as one of its `hooks` for a provider of your own."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        from opentelemetry import trace

        from roquet import __version__

        self._tracer = (provider or trace.get_tracer_provider()).get_tracer("roquet", __version__)

    # --- sending

    def before_send(self, sending: Sending) -> object:
        from opentelemetry import propagate, trace

        first = sending.messages[0]
        shared = {**_place(sending.address), **_about("send", first.topic)}
        if len(sending.messages) == 1:
            span = self._tracer.start_span(
                f"send {first.topic}",
                kind=trace.SpanKind.PRODUCER,
                attributes={**shared, **_outgoing(sending, 0)},
            )
            propagate.inject(sending.properties[0], trace.set_span_in_context(span))
            return Sent(span, ())
        created = []
        for number, message in enumerate(sending.messages):
            attributes = {**_about("create", message.topic), **_outgoing(sending, number)}
            one = self._tracer.start_span(
                f"create {message.topic}", kind=trace.SpanKind.PRODUCER, attributes=attributes
            )
            propagate.inject(sending.properties[number], trace.set_span_in_context(one))
            created.append(one)
        shared["messaging.batch.message_count"] = len(created)
        links = [trace.Link(one.get_span_context()) for one in created]
        span = self._tracer.start_span(
            f"send {first.topic}", kind=trace.SpanKind.CLIENT, attributes=shared, links=links
        )
        return Sent(span, created)

    def after_send(
        self, sending: Sending, token: object, receipts: Sequence[Receipt], error: BaseException | None
    ) -> None:
        if not isinstance(token, Sent):
            return
        each = token.created or (token.span,)
        for span, receipt in zip(each, receipts, strict=False):
            span.set_attribute("messaging.message.id", receipt.message_id)
            span.set_attribute("messaging.destination.partition.id", f"{receipt.broker}:{receipt.queue_id}")
        for span in token.created:
            span.end()
        _end(token.span, error)

    # --- consuming

    def before_consume(self, consuming: Consuming) -> object:
        from opentelemetry import context, trace

        first = consuming.messages[0]
        attributes = {**_about("process", first.topic), "messaging.consumer.group.name": consuming.group}
        if len(consuming.messages) == 1:
            attributes |= _received(first)
        else:
            attributes["messaging.batch.message_count"] = len(consuming.messages)
        # A loop may take a second message before it is done with the first: that is not part of the first.
        known = context.get_value(OUTSIDE)
        outside = context.get_current() if known is None else cast("Context", known)
        span = self._tracer.start_span(
            f"process {first.topic}",
            context=outside,
            kind=trace.SpanKind.CONSUMER,
            attributes=attributes,
            links=list(_origins(consuming.messages)),
        )
        context.attach(context.set_value(OUTSIDE, outside, trace.set_span_in_context(span, outside)))
        return Handed(span, outside)

    def after_consume(
        self, consuming: Consuming, token: object, outcome: str, error: BaseException | None
    ) -> None:
        if not isinstance(token, Handed):
            return
        from opentelemetry import context, trace

        if trace.get_current_span() is token.span:  # else another message, or another task, is current
            context.attach(token.outside)
        if outcome != "ok":
            token.span.set_attribute("messaging.rocketmq.outcome", outcome)
        _end(token.span, error)


def _about(operation: str, topic: str) -> dict[str, Value]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def _place(address: str) -> dict[str, Value]:
    host, _, port = address.rpartition(":")
    return {"server.address": host, "server.port": int(port)} if host and port.isdecimal() else {}


def _outgoing(sending: Sending, number: int) -> dict[str, Value]:
    message = sending.messages[number]
    found: dict[str, Value] = {
        "messaging.message.body.size": len(message.body),
        "messaging.rocketmq.message.type": TYPES.get(_kind(sending.kind, message), "normal"),
    }
    unique = sending.properties[number].get("UNIQ_KEY", "")
    if unique:
        found["messaging.message.id"] = unique
    if message.ordering_key is not None:
        found["messaging.rocketmq.message.group"] = message.ordering_key
    if message.deliver_at is not None:
        found["messaging.rocketmq.message.delivery_timestamp"] = int(message.deliver_at.timestamp() * 1000)
    elif message.delay is not None:
        found["messaging.rocketmq.message.delay_ms"] = message.delay // timedelta(milliseconds=1)
    return found | _labels(message.tag, message.keys)


def _kind(kind: str, message: Outgoing) -> str:
    if kind in TYPES:
        return kind
    if message.delay is not None or message.deliver_at is not None:
        return "delay"
    return "order" if message.ordering_key is not None else kind


def _received(message: Message) -> dict[str, Value]:
    found: dict[str, Value] = {
        "messaging.message.id": message.message_id,
        "messaging.message.body.size": len(message.record.body),
        "messaging.destination.partition.id": f"{message.broker}:{message.queue_id}",
    }
    return found | _labels(message.tag, message.keys)


def _labels(tag: str, keys: Sequence[str] | str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    if tag:
        found["messaging.rocketmq.message.tag"] = tag
    if keys:
        found["messaging.rocketmq.message.keys"] = keys.split() if isinstance(keys, str) else list(keys)
    return found


def _origins(messages: Sequence[Message]) -> Iterator[Link]:
    """Yield a link to the span that created each message, for those that carry one."""
    from opentelemetry import propagate, trace

    for message in messages:
        carried: Mapping[str, str] = message.properties
        origin = trace.get_current_span(propagate.extract(carried)).get_span_context()
        if origin.is_valid and "traceparent" in carried:
            yield trace.Link(origin, {"messaging.message.id": message.message_id})


def _end(span: Span, error: BaseException | None) -> None:
    from opentelemetry.trace import Status, StatusCode

    if error is not None:
        span.record_exception(error)
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
