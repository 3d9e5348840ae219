"""A helper process for CPU-bound work: ``Helper`` runs in the broker, ``main`` in the helper.

The helper runs one work at a time. When the broker closes the socket or dies, the helper exits immediately. A work is a
picklable object with ``run(report)``, or ``run_on(descriptor)`` if it needs an open file. Large buffers are wrapped in
``pickle.PickleBuffer`` and sent without a copy.
"""

import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any, Protocol

from kafka_zk.storage.files.errors import InvalidRecord, StorageError

_IMPORT_ROOT = str(Path(__file__).parents[3])  # not resolved: in the source tree kafka_zk/storage is a link
PROGRESS, DONE, FAILED = range(3)


class Report(Protocol):
    """Called with the number of bytes processed since the last call. A cleaning reports finished segments instead."""

    def __call__(self, size_bytes: Any, /) -> None: ...


class Helper:
    """One helper process. Calls block; ``receive`` blocks until there is progress or a result.

    ``memory_limit_bytes``: limit of the address space; work that needs more fails. ``niceness``: of the process.
    ``locks``: descriptors whose locks are held while the process lives.
    """

    def __init__(self, memory_limit_bytes: int = 0, niceness: int = 0, locks: Sequence[int] = ()) -> None:
        """Start the process. Raises: OSError if it cannot be started."""
        self.connection, theirs = Pipe()
        path = os.pathsep.join(filter(None, (_IMPORT_ROOT, os.environ.get("PYTHONPATH"))))
        numbers = (theirs.fileno(), memory_limit_bytes, niceness)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), *locks],
                env={**os.environ, "PYTHONPATH": path},
            )
        except OSError:
            self.connection.close()
            raise
        finally:
            theirs.close()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def begin(self, work: object, descriptor: int = -1) -> None:
        """Send a work, with an open file if needed. Raises: ConnectionError if the process has ended."""
        _send(self.connection, (work, descriptor >= 0))
        if descriptor >= 0:
            send_handle(self.connection, descriptor, self.process.pid)

    def receive(self) -> tuple[int, Any]:
        """(PROGRESS, reported value), (DONE, result) or (FAILED, exception of ``run``).

        Raises: EOFError, ConnectionError if the process has ended.
        """
        kind, content = _receive(self.connection)
        return kind, content

    def end(self) -> int:
        """Kill the process and return its exit code. No data are lost."""
        self.connection.close()
        self.process.kill()
        return self.process.wait()


def _send(connection: "Connection", content: object) -> None:
    """Like ``Connection.send``, which pickles into ``BytesIO.getbuffer()``. If that fails, the traceback refers to the
    view, and CPython 3.12.0 and 3.12.1 crash when they collect such a cycle (gh-111049)."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(content, 5, buffer_callback=buffers.append)
    connection.send_bytes(pickle.dumps((len(buffers), data)))
    for buffer in buffers:
        connection.send_bytes(buffer.raw())


def _receive(connection: "Connection") -> Any:
    count, data = pickle.loads(connection.recv_bytes())
    return pickle.loads(data, buffers=[connection.recv_bytes() for _ in range(count)])


def main(socket: int, memory_limit_bytes: int, niceness: int) -> None:
    """Run works and send results until the broker closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker handles Ctrl-C
    if memory_limit_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit_bytes, memory_limit_bytes))
    os.nice(niceness)
    connection: Connection = Connection(socket)
    threading.Thread(target=_end_with_broker, args=(socket,), daemon=True).start()

    def report(content: object) -> None:
        _send(connection, (PROGRESS, content))

    while True:
        try:
            work, has_file = _receive(connection)
            descriptor = recv_handle(connection) if has_file else -1
            _send(connection, answer(work, descriptor, report))
        except (EOFError, ConnectionError):
            return


def _end_with_broker(socket: int) -> None:
    """Wait until the other end of the socket is closed. The broker's death also closes it."""
    waiting = select.poll()
    waiting.register(socket, 0)  # poll always reports hang-ups
    waiting.poll()
    os._exit(0)


def answer(work: Any, descriptor: int, report: Report) -> tuple[int, object]:
    """Run a work. Returns (DONE, result) or (FAILED, exception)."""
    try:
        return DONE, work.run(report) if descriptor < 0 else work.run_on(descriptor)
    except MemoryError:
        return FAILED, InvalidRecord("it needs more memory than the limit")
    except (OSError, StorageError) as error:
        return FAILED, error
    finally:
        if descriptor >= 0:
            os.close(descriptor)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
