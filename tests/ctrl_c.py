"""Ctrl-C for tests of code that waits in the main thread.

One press may be lost: Python notes a signal, but a thread that is just about to wait at a lock goes to sleep
nevertheless and hears of it only with the next one (a person presses again). So the key is pressed until it
was heard, and heard once: presses on their way by then do nothing to the test behind.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN_S = 0.05
LIMIT_S = 120.0


@contextmanager
def pressed(begins: threading.Event) -> Iterator[None]:
    """Press Ctrl-C from the moment that `begins` is set; the block must see one KeyboardInterrupt."""
    main = threading.main_thread().ident
    assert main is not None
    heard: list[int] = []
    over = threading.Event()

    def hear(number: int, _frame: object) -> None:
        if not heard:
            heard.append(number)
            raise KeyboardInterrupt

    def press() -> None:
        begins.wait(LIMIT_S)
        while not heard and not over.is_set():
            signal.pthread_kill(main, signal.SIGINT)
            over.wait(AGAIN_S)

    before = signal.signal(signal.SIGINT, hear)
    presser = threading.Thread(target=press)
    presser.start()
    try:
        yield
    finally:
        heard.append(0)  # whatever is on its way does no harm
        over.set()
        presser.join()
        signal.signal(signal.SIGINT, before)
