"""The only thread of a process that starts child processes.

The kernel kills a tied child (``launch.py``) when the *thread* that started it ends, and callers may be short-lived
threads of a pool.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from subprocess import Popen

Start = Callable[[], "Popen[bytes]"]

_lock = threading.Lock()
_current: "_Starter | None" = None


def start(make: Start) -> "Popen[bytes]":
    """Call ``make`` on the thread.

    If the caller is interrupted while it waits, the process is killed.
    Raises: exceptions of ``make``.
    """
    started = _starter().submit(make)
    try:
        return started.result()
    except BaseException:
        started.add_done_callback(_kill)
        raise


def _kill(started: "Future[Popen[bytes]]") -> None:
    if started.exception() is None:
        started.result().kill()
        started.result().wait()


def _starter() -> "_Starter":
    """This process's starter. A forked process needs its own, because its parent's threads do not exist in it."""
    global _current
    with _lock:
        if _current is None or _current.process_id != os.getpid():
            _current = _Starter()
        return _current


class _Starter:
    def __init__(self) -> None:
        self.process_id = os.getpid()
        self._waiting: SimpleQueue[tuple[Start, Future[Popen[bytes]]]] = SimpleQueue()
        threading.Thread(target=self._run, name="kafka-zk starter", daemon=True).start()

    def submit(self, make: Start) -> "Future[Popen[bytes]]":
        started: Future[Popen[bytes]] = Future()
        self._waiting.put((make, started))
        return started

    def _run(self) -> None:
        while True:
            make, started = self._waiting.get()
            try:
                started.set_result(make())
            except BaseException as error:
                started.set_exception(error)
            del make, started
