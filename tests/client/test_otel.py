"""Spans by OpenTelemetry's conventions, from a send to the handler, with the context in the message."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import roquet
from roquet.client.otel import OpenTelemetry, automatic
from roquet.testing import LocalBroker, broker

LIMIT_S = 120


class Spans:
    """A provider of this test alone, and what it was told."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.hook = OpenTelemetry(self.provider)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._kept.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span


def play(scenario: Callable[[LocalBroker, Spans], Coroutine[Any, Any, None]]) -> Spans:
    spans = Spans()

    async def main() -> None:
        async with asyncio.timeout(LIMIT_S), broker() as mq:
            await scenario(mq, spans)

    asyncio.run(main())
    return spans


async def take(mq: LocalBroker, spans: Spans, count: int, handler: Callable[[roquet.Message], None]) -> None:
    """Consume so many messages."""
    done = asyncio.Event()
    left = count

    async def handle(message: roquet.Message) -> None:
        nonlocal left
        try:
            handler(message)
        finally:
            left -= 1
            if not left:
                done.set()

    async with mq.consumer(
        group="billing", subscribe="orders", start="earliest", hooks=[spans.hook], handler=handle
    ):
        await done.wait()


def test_a_send_and_its_processing_are_linked() -> None:
    inside: list[trace.SpanContext] = []

    async def scenario(mq: LocalBroker, spans: Spans) -> None:
        async with mq.producer(group="shop", hooks=[spans.hook]) as producer:
            receipt = await producer.send("orders", b"12345", tag="created", keys=["42", "k2"])
        await take(mq, spans, 1, lambda m: inside.append(trace.get_current_span().get_span_context()))
        assert spans.one("send orders").attributes["messaging.message.id"] == receipt.message_id  # type: ignore[index]

    spans = play(scenario)
    sent, processed = spans.one("send orders"), spans.one("process orders")
    assert sent.kind is SpanKind.PRODUCER and processed.kind is SpanKind.CONSUMER
    assert sent.attributes is not None and processed.attributes is not None
    for attributes in (sent.attributes, processed.attributes):
        assert attributes["messaging.system"] == "rocketmq"
        assert attributes["messaging.destination.name"] == "orders"
        assert attributes["messaging.message.body.size"] == 5
        assert attributes["messaging.rocketmq.message.tag"] == "created"
        assert attributes["messaging.rocketmq.message.keys"] == ("42", "k2")
        assert str(attributes["messaging.destination.partition.id"]).startswith("broker-a:")
    assert sent.attributes["messaging.operation.type"] == "send"
    assert sent.attributes["messaging.rocketmq.message.type"] == "normal"
    assert sent.attributes["server.address"] == "127.0.0.1"
    assert processed.attributes["messaging.operation.type"] == "process"
    assert processed.attributes["messaging.consumer.group.name"] == "billing"
    assert [link.context.span_id for link in processed.links] == [sent.context.span_id]
    assert inside == [processed.context]


def test_each_message_of_a_batch_has_a_span_of_its_own() -> None:
    async def scenario(mq: LocalBroker, spans: Spans) -> None:
        async with mq.producer(hooks=[spans.hook]) as producer:
            await producer.send_batch("orders", [b"1", b"2", b"3"])
        await take(mq, spans, 3, lambda message: None)

    spans = play(scenario)
    created, sent = spans.named("create orders"), spans.one("send orders")
    assert sent.kind is SpanKind.CLIENT and sent.attributes is not None
    assert sent.attributes["messaging.batch.message_count"] == 3
    ids = {span.context.span_id for span in created}
    assert {link.context.span_id for link in sent.links} == ids and len(ids) == 3
    assert {span.links[0].context.span_id for span in spans.named("process orders")} == ids


def test_kinds_of_messages_are_told() -> None:
    async def scenario(mq: LocalBroker, spans: Spans) -> None:
        async with mq.producer(hooks=[spans.hook]) as producer:
            await producer.send("later", b".", delay=timedelta(seconds=90))
            await producer.send("ordered", b".", ordering_key="customer 7")
            async with producer.transaction("atomic", b"."):
                pass

    spans = play(scenario)
    later, ordered = spans.one("send later").attributes, spans.one("send ordered").attributes
    atomic = spans.one("send atomic").attributes
    assert later is not None and ordered is not None and atomic is not None
    assert later["messaging.rocketmq.message.type"] == "delay"
    assert later["messaging.rocketmq.message.delay_ms"] == 90_000
    assert ordered["messaging.rocketmq.message.type"] == "fifo"
    assert ordered["messaging.rocketmq.message.group"] == "customer 7"
    assert atomic["messaging.rocketmq.message.type"] == "transaction"


def test_a_loop_over_messages_has_one_span_for_each_and_leaves_none() -> None:
    async def scenario(mq: LocalBroker, spans: Spans) -> None:
        async with (
            mq.producer() as producer,
            mq.consumer(group="loop", subscribe="orders", start="earliest", hooks=[spans.hook]) as consumer,
        ):
            await producer.send_batch("orders", [b"1", b"2"])
            messages = aiter(consumer)
            first, second = await anext(messages), await anext(messages)
            assert trace.get_current_span().is_recording()
            await first.ack()
            await second.ack()
            assert not trace.get_current_span().is_recording()

    spans = play(scenario)
    assert [span.parent for span in spans.named("process orders")] == [None, None]


def test_failures_are_told() -> None:
    async def scenario(mq: LocalBroker, spans: Spans) -> None:
        async with mq.producer(hooks=[spans.hook], retries=0) as producer:
            await producer.send("orders", b".")

            def fail(message: roquet.Message) -> None:
                raise KeyError("no such customer")

            await take(mq, spans, 1, fail)
            await mq.stop()
            with pytest.raises(roquet.RoquetError):
                await producer.send("orders", b".")

    spans = play(scenario)
    processed = spans.one("process orders")
    assert processed.status.status_code is StatusCode.ERROR
    assert processed.attributes is not None and processed.attributes["error.type"] == "KeyError"
    assert processed.attributes["messaging.rocketmq.outcome"] in ("retry", "error")
    assert [span.status.status_code for span in spans.named("send orders")][0] is StatusCode.UNSET
    assert all(span.status.status_code is StatusCode.ERROR for span in spans.named("send orders")[1:])


def test_without_a_provider_there_is_no_hook() -> None:
    assert automatic() == ()


def test_a_provider_makes_the_hook_active_by_itself() -> None:
    script = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from roquet.client.otel import OpenTelemetry, automatic
assert automatic() == ()
trace.set_tracer_provider(TracerProvider())
(hook,) = automatic()
assert isinstance(hook, OpenTelemetry)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=LIMIT_S)


def test_a_program_without_opentelemetry_does_not_load_it() -> None:
    script = """
import sys
import roquet.client.producer, roquet.client.otel
assert roquet.client.otel.automatic() == ()
assert not any(name.startswith("opentelemetry") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=LIMIT_S)
