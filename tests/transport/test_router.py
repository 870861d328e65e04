"""From code to handler and back: refusals, mistakes, slow work and its bound, and the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

import pytest

from roquet.sim.world import World
from roquet.transport.link import Call, Link
from roquet.transport.router import Handler, Router
from roquet.transport.tasks import Tasks
from roquet.wire.codes import FLAG_ONE_WAY, FLAG_REPLY, Code
from roquet.wire.frame import Frame, split
from roquet.wire.reply import NOTHING, OK, PARKED, Outcome, Refusal, Reply
from roquet.wire.requests.offsets import GetMaxOffset, GetMinOffset, OffsetFound
from roquet.wire.requests.topics import DeleteTopic
from roquet.wire.row import Header
from tests.transport.ends import dial, dial_raw, open_server, pause, simulate

ASK = GetMaxOffset("t", 7)


def from_loopback(call: Call) -> bool:
    return call.link.peer[0] == "127.0.0.1"


def found(request: GetMaxOffset, call: Call) -> Outcome:
    return Reply(header=OffsetFound(request.queue_id))


async def routed(world: World, handlers: Mapping[type[Header], Handler], tasks: Tasks | None = None) -> Link:
    """Return a link to a server with these handlers."""
    await open_server(world, Router(handlers, from_loopback, tasks or Tasks()).serve)
    return await dial(world)


def test_a_request_reaches_its_handler() -> None:
    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: found})
        answer = await link.call(ASK, timeout_s=3)
        assert (answer.code, OffsetFound.decode(answer.ext).offset) == (0, 7)

    simulate(main)


def test_an_unknown_code_is_named() -> None:
    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: found})
        answer = await link.call_frame(Frame(9999), timeout_s=3)
        assert (answer.code, answer.remark) == (
            Code.REQUEST_CODE_NOT_SUPPORTED,
            " request type 9999 not supported",
        )
        answer = await link.call(GetMinOffset("t", 0), timeout_s=3)
        assert answer.remark == " request type 31 (GET_MIN_OFFSET) not supported"
        assert (await link.call(ASK, timeout_s=3)).code == 0

    simulate(main)


@pytest.mark.parametrize(
    ("ext", "remark"),
    [
        ({}, "GET_MAX_OFFSET: the field topic is missing"),
        ({"topic": "t"}, "GET_MAX_OFFSET: the field queueId is missing"),
        ({"topic": "t", "queueId": "abc"}, "GET_MAX_OFFSET: the field queueId is 'abc': "),
        ({"topic": "t", "queueId": str(2**31)}, "GET_MAX_OFFSET: the field queueId is '2147483648': wider"),
    ],
)
def test_a_bad_field_is_named(ext: Mapping[str, str], remark: str) -> None:
    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: found})
        answer = await link.call_frame(Frame(30, ext=ext), timeout_s=3)
        assert answer.code == Code.SYSTEM_ERROR and answer.remark.startswith(remark)
        assert (await link.call(ASK, timeout_s=3)).code == 0

    simulate(main)


def test_only_loopback_peers_may_change_the_server() -> None:
    deleted: list[str] = []

    def delete(request: DeleteTopic, call: Call) -> Outcome:
        deleted.append(request.topic)
        return OK

    async def main(world: World) -> None:
        link = await routed(world, {DeleteTopic: delete})
        answer = await link.call(DeleteTopic("t"), timeout_s=3)
        assert answer.code == Code.NO_PERMISSION and not deleted
        assert "DELETE_TOPIC_IN_BROKER" in answer.remark and "adminFromAnywhere" in answer.remark
        # Not even the fields of a request that is not allowed are looked at.
        assert (await link.call_frame(Frame(215), timeout_s=3)).code == Code.NO_PERMISSION
        ports = world.ports("server")
        _, near = await ports.net.connect(lambda: Link(ports.clock, print), "127.0.0.1", 10911, timeout_s=3)
        assert isinstance(near, Link)
        assert (await near.call(DeleteTopic("t"), timeout_s=3)).code == 0 and deleted == ["t"]

    simulate(main)


def test_a_refusal_is_an_answer() -> None:
    def refuse(request: GetMaxOffset, call: Call) -> Outcome:
        raise Refusal(Code.TOPIC_NOT_EXIST, "create it first", OffsetFound(3))

    async def refuse_later(request: GetMinOffset, call: Call) -> Outcome:
        raise Refusal(Code.NO_PERMISSION, "not now")

    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: refuse, GetMinOffset: refuse_later})
        answer = await link.call(ASK, timeout_s=3)
        assert (answer.code, answer.remark, answer.ext) == (17, "create it first", {"offset": "3"})
        answer = await link.call(GetMinOffset("t", 0), timeout_s=3)
        assert (answer.code, answer.remark) == (16, "not now")

    simulate(main)


def test_a_mistake_of_ours_is_answered_and_logged_and_the_link_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(request: GetMaxOffset, call: Call) -> Outcome:
        raise ZeroDivisionError("at once \udcff")

    async def fail_later(request: GetMinOffset, call: Call) -> Outcome:
        await asyncio.sleep(0.01)
        raise OSError(28, "No space left on device", "/data/\udcff")

    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: fail, GetMinOffset: fail_later})
        for request, text in ((ASK, "ZeroDivisionError: at once"), (GetMinOffset("t", 0), "No space left")):
            answer = await link.call(request, timeout_s=3)
            assert answer.code == Code.SYSTEM_ERROR and text in answer.remark
        assert (await link.call_frame(Frame(9999), timeout_s=3)).code == 3

    simulate(main)
    told = [record for record in caplog.records if record.exc_info]
    assert len(told) == 2 and told[0].getMessage().startswith("GET_MAX_OFFSET from 127.0.0.")


def test_an_answer_that_cannot_be_written_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    def unwritable(request: GetMaxOffset, call: Call) -> Outcome:
        return Reply(remark="half a pair \ud800")

    async def unwritable_later(request: GetMinOffset, call: Call) -> Outcome:
        return Reply(remark="half a pair \ud800")

    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: unwritable, GetMinOffset: unwritable_later})
        for request in (ASK, GetMinOffset("t", 0)):
            answer = await link.call(request, timeout_s=3)
            assert answer.code == Code.SYSTEM_ERROR and "UnicodeEncodeError" in answer.remark

    simulate(main)


def test_a_handler_that_fails_behind_its_answer_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def answer_and_fail(request: GetMaxOffset, call: Call) -> Outcome:
        call.answer(Reply(header=OffsetFound(1)))
        raise ZeroDivisionError

    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: answer_and_fail})
        for _ in range(2):
            assert (await link.call(ASK, timeout_s=3)).code == 0

    simulate(main)
    assert "ZeroDivisionError" in caplog.text


def test_parked_requests_are_answered_later_and_nothing_stays_nothing() -> None:
    parked: list[Call] = []

    def park(request: GetMaxOffset, call: Call) -> Outcome:
        parked.append(call)
        return PARKED

    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: park, GetMinOffset: lambda request, call: NOTHING})
        asked = asyncio.create_task(link.call(ASK, timeout_s=60))
        with pytest.raises(TimeoutError):
            await link.call(GetMinOffset("t", 0), timeout_s=10)
        parked[0].answer(Reply(header=OffsetFound(5)))
        assert (await asked).ext == {"offset": "5"}

    simulate(main)


def test_one_way_requests_get_nothing_whatever_happens() -> None:
    async def later(request: GetMinOffset, call: Call) -> Outcome:
        return OK

    async def main(world: World) -> None:
        handlers: dict[type[Header], Handler] = {GetMaxOffset: found, GetMinOffset: later, DeleteTopic: found}
        await open_server(world, Router(handlers, from_loopback, Tasks(tasks_max=0)).serve)
        peer = await dial_raw(world)
        good = {"topic": "t", "queueId": "0"}
        for code, ext in ((30, good), (30, {}), (31, good), (215, {}), (9999, {})):
            peer.send(Frame(code, code, FLAG_ONE_WAY, ext))
        peer.send(Frame(30, 1, 0, good))
        await pause(world, 1)
        frames, _ = split(peer.received)
        assert [frame.opaque for frame in frames] == [1]

    simulate(main)


def test_slow_work_is_bounded_and_the_refusal_says_what_is_short() -> None:
    gate = asyncio.Event()

    async def wait(request: GetMaxOffset, call: Call) -> Outcome:
        await gate.wait()
        return Reply(header=OffsetFound(request.queue_id))

    async def main(world: World) -> None:
        tasks = Tasks(tasks_max=20)
        link = await routed(world, {GetMaxOffset: wait}, tasks)
        asked = [asyncio.create_task(link.call(GetMaxOffset("t", n), timeout_s=60)) for n in range(30)]
        await pause(world, 1)
        assert tasks.count == 20
        gate.set()
        answers = await asyncio.gather(*asked)
        assert [answer.code for answer in answers] == [0] * 20 + [Code.SYSTEM_BUSY] * 10
        assert answers[-1].remark.startswith("[OVERLOAD] 20 requests wait for the disk")
        assert tasks.count == 0
        assert (await link.call(ASK, timeout_s=3)).code == 0

    simulate(main)


def test_closing_answers_what_is_at_work() -> None:
    async def wait(request: GetMaxOffset, call: Call) -> Outcome:
        await asyncio.Event().wait()
        return OK

    async def main(world: World) -> None:
        tasks = Tasks()
        link = await routed(world, {GetMaxOffset: wait}, tasks)
        asked = [asyncio.create_task(link.call(ASK, timeout_s=60)) for _ in range(10)]
        await pause(world, 1)
        await tasks.close()
        for answer in await asyncio.gather(*asked):
            assert answer.code == Code.SYSTEM_BUSY and "stopping" in answer.remark
        assert tasks.count == 0

    simulate(main)


def test_closing_answers_what_has_not_even_begun() -> None:
    async def wait(request: GetMaxOffset, call: Call) -> Outcome:
        raise AssertionError("cancelled before its first step")

    async def main(world: World) -> None:
        tasks = Tasks()
        server = await open_server(world)
        peer = await dial_raw(world)
        call = Call(next(iter(server.links)), Frame(30, 5))
        tasks.run(call, wait(ASK, call))
        await tasks.close()
        await pause(world, 1)
        [answer], _ = split(peer.received)
        assert (answer.opaque, answer.code) == (5, Code.SYSTEM_BUSY)

    simulate(main)


def test_a_link_that_goes_away_leaves_the_work_to_end() -> None:
    async def wait(request: GetMaxOffset, call: Call) -> Outcome:
        await asyncio.sleep(5)
        return OK

    async def main(world: World) -> None:
        tasks = Tasks()
        link = await routed(world, {GetMaxOffset: wait}, tasks)
        asked = asyncio.create_task(link.call(ASK, timeout_s=60))
        await pause(world, 1)
        world.net.cut("client", "server")
        with pytest.raises(ConnectionError):
            await asked
        await pause(world, 10)
        assert tasks.count == 0

    simulate(main)


def test_a_port_may_serve_less() -> None:
    router = Router({GetMaxOffset: found, DeleteTopic: found}, from_loopback, Tasks())
    assert router.codes == {30, 215}
    assert router.without(DeleteTopic).codes == {30}


def test_failures_are_logged_by_the_transport(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: GetMaxOffset, call: Call) -> Outcome:
        raise ZeroDivisionError

    async def main(world: World) -> None:
        link = await routed(world, {GetMaxOffset: fail})
        await link.call(ASK, timeout_s=3)

    simulate(main)
    assert [(record.name, record.levelno) for record in caplog.records] == [
        ("roquet.transport", logging.ERROR)
    ]


def test_frames_of_codes_that_are_taken_together_are_sorted_by_code() -> None:
    """What a run does not take goes the usual way, and a frame of another kind ends the runs."""
    seen: list[tuple[str, list[int]]] = []

    def run(link: Link, frames: list[Frame], start: int) -> int:
        taken = [frame for frame in frames[start:] if frame.opaque != 4]
        count = next((at for at, frame in enumerate(frames[start:]) if frame.opaque == 4), len(taken))
        seen.append(("run", [frame.opaque for frame in frames[start : start + count]]))
        return count

    def alone(request: Header, call: Call) -> Outcome:
        seen.append(("alone", [call.frame.opaque]))
        return NOTHING

    both = {GetMaxOffset: alone, GetMinOffset: alone}
    router = Router(
        {**both, DeleteTopic: alone}, lambda call: True, Tasks(), {GetMaxOffset: run, GetMinOffset: run}
    )
    ext = {"topic": "t", "queueId": "0"}
    codes = [30, 31, 30, 30, 31, 215, 30]
    frames = [Frame(code, number, 0, ext) for number, code in enumerate(codes, 1)]
    frames.append(Frame(30, 8, FLAG_REPLY, ext))
    link = Link(World(1).clock("127.0.0.1"), router.serve)
    assert [router.serve_run(link, frames, start) for start in (0, 5, 6)] == [5, 1, 1]
    assert seen == [
        ("run", [1, 3]), ("run", []), ("alone", [4]), ("run", [2, 5]), ("alone", [6]), ("run", [7]),
    ]  # fmt: skip
