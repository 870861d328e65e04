"""Apache's own tool reads our traces."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from roquet.client.message import Receipt
from roquet.client.producer.producer import Producer
from tests.peers.mqadmin import Mqadmin

pytestmark = [pytest.mark.java, pytest.mark.process]

TOPIC, GROUP = "traced-for-mqadmin", "told"


def test_mqadmin_shows_who_sent_a_message(sockets_namesrv: str, tmp_path: Path) -> None:
    async def send() -> tuple[list[Receipt], Receipt]:
        async with Producer(sockets_namesrv, group=GROUP, trace=True) as producer:
            sent = [await producer.send(TOPIC, b"abc", tag="t", keys=["k1"])]
            sent += await producer.send_batch(TOPIC, [b"one", b"two"])
            async with producer.transaction(TOPIC, b"half") as half:
                pass
            return sent, half.receipt

    sent, half = asyncio.run(send())
    with Mqadmin(sockets_namesrv, tmp_path) as mqadmin:
        for receipt in sent:
            shown = mqadmin.run_until(GROUP, "queryMsgTraceById", "-i", receipt.message_id)
            line = next(line for line in shown.splitlines() if GROUP in line)
            kind, group, *_, status = line.split()
            assert (kind, group, status) == ("Pub", GROUP, "success")
        # The tool shows sends and consumptions; the end of the transaction beside them does not disturb it.
        shown = mqadmin.run_until(GROUP, "queryMsgTraceById", "-i", half.message_id)
        assert [line.split()[0] for line in shown.splitlines() if GROUP in line] == ["Pub"]
