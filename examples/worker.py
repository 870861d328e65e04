"""A synchronous worker: a function for each message, in threads, with retries; stops after the last job.

python examples/worker.py [host:port of a name server]
"""

import sys
import threading

import roquet

NAMESRV = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
JOBS = 5

done: set[bytes] = set()
lock = threading.Lock()


def work(message: roquet.sync.Message) -> None:
    """Do one job. Returning acknowledges it; raising would bring it back later."""
    print(f"{threading.current_thread().name} does {message.body.decode()}, attempt {message.attempt}")
    with lock:
        done.add(message.body)
        if len(done) == JOBS:
            consumer.stop()


with roquet.sync.Producer(NAMESRV) as producer:
    producer.send_batch("jobs", [f"job {number}" for number in range(JOBS)])

consumer = roquet.sync.Consumer(NAMESRV, group="workers", subscribe="jobs", start="earliest", handler=work)
consumer.run()
print("all done")
