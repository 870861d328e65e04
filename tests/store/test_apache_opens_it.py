"""A real Apache 5.5.0 broker opens a store that we wrote, adds to it, and we open it again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.model.message import Draft, Host, java_hash
from roquet.model.status import Appended, GetStatus, PutStatus
from roquet.runtime.clock import RealClock
from roquet.runtime.disk import OsDisk
from roquet.store.format import record
from roquet.store.settings import StoreSettings
from roquet.store.store import Store
from tests.peers.apache import SMALL_STORE, ApacheNode, start_broker, start_namesrv
from tests.peers.asking import ask

pytestmark = [pytest.mark.java, pytest.mark.process]

QUERY_MESSAGE, GET_MAX_OFFSET, GET_MIN_OFFSET, VIEW_MESSAGE_BY_ID, SEND_MESSAGE = 12, 30, 31, 33, 10
HERE = Host(bytes([127, 0, 0, 1]), 10_911)
COUNT = 500


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    node = start_namesrv(tmp_path_factory.mktemp("namesrv"))
    yield node.address
    node.kill()


def opened(root: Path) -> Store:
    settings = StoreSettings(
        str(root),
        log_file_size_bytes=int(SMALL_STORE["mappedFileSizeCommitLog"]),
        queue_file_size_bytes=int(SMALL_STORE["mappedFileSizeConsumeQueue"]),
        index_slot_count=int(SMALL_STORE["maxHashSlotNum"]),
        index_entry_count=int(SMALL_STORE["maxIndexNum"]),
    )
    store = Store(OsDisk(), RealClock(), settings, HERE, asyncio.get_running_loop().call_soon, 4711)
    store.open()
    return store


async def append(store: Store, draft: Draft) -> Appended:
    answer: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
    store.append([draft], answer.set_result)
    return await answer


async def write(root: Path) -> list[Appended]:
    """Write a store and close it in order."""
    store = opened(root)
    answers = []
    for number in range(COUNT):
        properties = f"UNIQ_KEY\x01u{number}\x02KEYS\x01k{number}\x02TAGS\x01red\x02".encode()
        draft = Draft(
            "Ours", number % 2, b"body %d" % number, properties, 7, 0, 1_000, HERE,
            tag_code=java_hash("red"), keys=(f"u{number}", f"k{number}", "T#red"),
        )  # fmt: skip
        answers.append(await append(store, draft))
    await store.close()
    assert {answer.status for answer in answers} == {PutStatus.PUT_OK}
    return answers


async def read(root: Path) -> list[bytes]:
    """Open the store, return the bodies of queue 0, and close it."""
    store = opened(root)
    found: list[bytes] = []
    while True:
        got = await store.read("Ours", 0, len(found), 32, 1 << 20)
        if got.status is not GetStatus.FOUND:
            break
        found += [record.decode(data).body for data in got.records]
    await store.close()
    return found


def check(broker: ApacheNode, answers: list[Appended]) -> None:
    """Ask Apache's broker for offsets, for records by place, and for records by key."""
    queue = {"topic": "Ours", "queueId": "1"}
    assert ask(broker.address, GET_MIN_OFFSET, queue).fields["offset"] == "0"
    end = str(COUNT // 2)
    broker.process.wait_until(
        lambda: ask(broker.address, GET_MAX_OFFSET, queue).fields["offset"] == end, "the queue's end", 60
    )
    for number in (0, 1, COUNT - 1):
        answer = ask(broker.address, VIEW_MESSAGE_BY_ID, {"offset": str(answers[number].log_offsets[0])})
        assert (answer.code, record.decode(answer.body).body) == (0, b"body %d" % number)
        wanted = {"topic": "Ours", "key": f"k{number}", "maxNum": "32"}
        times = {"beginTimestamp": "0", "endTimestamp": str(1 << 60)}
        answer = ask(broker.address, QUERY_MESSAGE, {**wanted, **times})
        assert (answer.code, record.decode(answer.body).body) == (0, b"body %d" % number)


@pytest.mark.parametrize("is_clean", [True, False])
def test_apache_opens_what_we_wrote_and_we_open_what_it_added(
    namesrv: str, tmp_path: Path, is_clean: bool
) -> None:
    root = tmp_path / "store"
    answers = asyncio.run(write(root))
    if not is_clean:
        (root / "abort").write_text("4711")
    broker = start_broker(tmp_path / "home", namesrv, store=root)
    try:
        check(broker, answers)
        fields = {
            "producerGroup": "g", "topic": "Ours", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
            "queueId": "0", "sysFlag": "0", "bornTimestamp": "1000", "flag": "0", "properties": "",
            "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
        }  # fmt: skip
        sent = ask(broker.address, SEND_MESSAGE, fields, b"from Apache")
        assert (sent.code, sent.fields["queueOffset"]) == (0, str(COUNT // 2))
    finally:
        broker.stop() if is_clean else broker.kill()
    expected = [b"body %d" % number for number in range(0, COUNT, 2)] + [b"from Apache"]
    assert asyncio.run(read(root)) == expected
    assert asyncio.run(read(root)) == expected
