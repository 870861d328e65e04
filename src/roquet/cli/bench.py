"""`roquet bench send|receive`: how much a cluster takes, with a live line.

A small load tool: senders that each wait for their receipt (or batches), or one consumer that acknowledges
everything. It measures this machine and this client as well as the broker.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer

from roquet.cli.options import DEFAULT_NAMESRV, Json, Namesrv

app = typer.Typer(no_args_is_help=True, help="Measure a cluster.")

TOPIC: Final = "roquet-bench"

Topic = Annotated[str, typer.Option("--topic", help="Topic to use.")]
Seconds = Annotated[float, typer.Option("--seconds", help="How long at most.", min=0.1)]


@app.command()
def send(
    topic: Topic = TOPIC,
    size: Annotated[int, typer.Option("--size", help="Bytes of a body.", min=0)] = 128,
    count: Annotated[int | None, typer.Option("--count", help="How many messages at most.", min=1)] = None,
    seconds: Seconds = 10.0,
    senders: Annotated[int, typer.Option("--senders", help="Sends under way at once.", min=1)] = 64,
    batch: Annotated[int, typer.Option("--batch", help="Messages in one request.", min=1)] = 1,
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Send as fast as the cluster takes it."""
    import asyncio
    import time

    from roquet.cli.meter import Meter, beside
    from roquet.cli.output import Printer
    from roquet.cli.work import run
    from roquet.client.errors import Busy, TimedOut
    from roquet.client.message import Outgoing
    from roquet.client.producer.producer import Producer

    meter = Meter("sent")
    body = b"x" * size
    parcel = [Outgoing(topic=topic, body=body)] * batch

    async def work() -> None:
        async with Producer(namesrv, group="roquet-bench", retries=0) as producer:

            async def one() -> None:
                await (producer.send_batch(topic, parcel) if batch > 1 else producer.send(topic, body))

            await one()  # the route, the connection and the topic are there now
            meter.begin()

            async def sender() -> None:
                while meter.seconds < seconds and (count is None or taken() < count):
                    began = time.monotonic()
                    try:
                        await one()
                        meter.took(batch, time.monotonic() - began)
                    except (Busy, TimedOut):
                        meter.failed += batch

            begun = 0

            def taken() -> int:
                nonlocal begun
                begun += batch
                return begun - batch

            await beside(meter.show, lambda: asyncio.gather(*(sender() for _ in range(senders))))

    run(work())
    Printer(json).one({"topic": topic, "size_bytes": size, "batch": batch, **meter.result()})


@app.command()
def receive(
    topic: Topic = TOPIC,
    count: Annotated[int | None, typer.Option("--count", help="Stop after so many.", min=1)] = None,
    seconds: Seconds = 10.0,
    group: Annotated[str, typer.Option("--group", help="Consumer group.")] = "roquet-bench",
    namesrv: Namesrv = DEFAULT_NAMESRV,
    json: Json = None,
) -> None:
    """Consume from the beginning as fast as the cluster gives it."""
    import asyncio

    from roquet.cli.meter import Meter, beside
    from roquet.cli.output import Printer
    from roquet.cli.work import run
    from roquet.client.consumer.consumer import Consumer

    meter = Meter("received")

    async def work() -> None:
        subscribe = {topic: "*"}
        async with Consumer(
            namesrv,
            group=group,
            subscribe=subscribe,
            start="earliest",
            batch=1024,
            prefetch=20_000,
            auto_ack=True,
        ) as consumer:

            async def receive_all() -> None:
                try:
                    async with asyncio.timeout(seconds):
                        async for messages in consumer.batches(max=1024):
                            meter.came(len(messages))
                            if count is not None and meter.count >= count:
                                return
                except TimeoutError:
                    return

            meter.begin()
            await beside(meter.show, receive_all)

    run(work())
    Printer(json).one({"topic": topic, "group": group, **meter.result()})
