"""When does a broker take messages? A plain socket asks until it does.

`first_send` repeats request 310 (SEND_MESSAGE_V2, one-letter keys) from the moment the process starts: what
it returns is what a user waits for. `wait_for_queue` asks with request 30 (GET_MAX_OFFSET) until a message
is in its queue; queues are filled in the order of the log, so then everything before it is in place as well.
"""

import time
from typing import NamedTuple

from tests.peers.asking import ask
from tests.peers.child import Child, ChildError

SEND_MESSAGE_V2 = 310
GET_MAX_OFFSET = 30
SUCCESS = 0
POLL_S = 0.005
TOPIC = "BenchmarkTest"
BODY = b"x" * 128


class Accepted(NamedTuple):
    """A stored message and how long after `since` its answer came."""

    took_s: float
    queue_offset: int


def first_send(process: Child, address: str, since: float, timeout_s: float) -> Accepted:
    """Send to queue 0 until the broker accepts; `since` is the monotonic time of the process's start.

    Raises ChildError when the process has died or time is up.
    """
    refusal = "nobody answered"
    while process.alive() and time.monotonic() - since < timeout_s:
        try:
            answer = ask(address, SEND_MESSAGE_V2, _send_fields(), BODY)
        except OSError as error:
            refusal = str(error)
        else:
            if answer.code == SUCCESS:
                return Accepted(time.monotonic() - since, int(answer.fields["queueOffset"]))
            refusal = f"answered {answer.code}: {answer.remark}"
        time.sleep(POLL_S)
    how = f"took no message within {timeout_s} s" if process.alive() else "died before it took a message"
    raise ChildError(f"{process.name} {how}: {refusal}\n{process.tail()}")


def wait_for_queue(process: Child, address: str, queue_id: int, queue_offset: int, timeout_s: float) -> None:
    """Wait until the queue holds the message at this offset; raises ChildError when it does not in time."""
    deadline = time.monotonic() + timeout_s
    fields = {"topic": TOPIC, "queueId": str(queue_id)}
    refusal = "nobody answered"
    while process.alive() and time.monotonic() < deadline:
        try:
            answer = ask(address, GET_MAX_OFFSET, fields)
        except OSError as error:
            refusal = str(error)
        else:
            if answer.code == SUCCESS and int(answer.fields["offset"]) > queue_offset:
                return
            refusal = f"answered {answer.code}: {answer.remark or answer.fields}"
        time.sleep(POLL_S)
    raise ChildError(
        f"{process.name}: queue {queue_id} never held offset {queue_offset}: {refusal}\n{process.tail()}"
    )


def _send_fields() -> dict[str, str]:
    return {
        "a": "bench_probe",
        "b": TOPIC,
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": "WAIT\x01true\x02",
        "j": "0",
        "k": "false",
        "m": "false",
    }
