"""A helper process for CPU-bound work: ``Helper`` is in the broker, ``main`` in the helper.

A helper runs one work item at a time, and exits immediately when the broker dies or closes the socket. A work item can
be pickled and has a method ``run(report)`` or, to work on an open file, ``run_on(descriptor)``. Large buffers are sent
uncopied, as ``pickle.PickleBuffer``. Each work item runs with the file-size limit that the broker has when it sends the
item.
"""

import os
import pickle
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

from kafka_zk.base.operating_system.limits import file_size_limit, limit_file_size, limit_memory
from kafka_zk.storage.files.errors import InvalidRecord, StorageError

_IMPORT_ROOT = str(Path(__file__).parents[3])  # not resolved, because kafka_zk/storage may be a link
PROGRESS, DONE, FAILED = range(3)


class Report(Protocol):
    """Called with the number of bytes processed since the last call, or with a cleaning's finished segments."""

    def __call__(self, size_bytes: Any, /) -> None: ...


class Helper:
    """Calls block; ``receive`` returns when there is progress or a result.

    ``memory_limit_bytes``: limit of the address space. ``locks``: descriptors whose locks last as long as the process.
    """

    def __init__(self, memory_limit_bytes: int = 0, niceness: int = 0, locks: Sequence[int] = ()) -> None:
        """Raises: OSError if the process cannot be started."""
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
        """Send a work item, with an open file if needed. Raises: ConnectionError if the process has ended."""
        _send(self.connection, (work, descriptor >= 0, file_size_limit()))
        if descriptor >= 0:
            send_handle(self.connection, descriptor, self.process.pid)

    def receive(self) -> tuple[int, Any]:
        """(PROGRESS, reported value), (DONE, result) or (FAILED, exception of ``run``).

        Raises: EOFError, ConnectionError if the process has ended.
        """
        kind, content = _receive(self.connection)
        return kind, content

    def end(self) -> int:
        """Kill the process, which loses no data, and return its exit code."""
        self.connection.close()
        self.process.kill()
        return self.process.wait()


def _send(connection: "Connection", content: object) -> None:
    """Replaces ``Connection.send``: if pickling into its ``BytesIO.getbuffer()`` fails, the traceback refers to the
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
    """Run work items until the broker closes the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker handles Ctrl-C
    if memory_limit_bytes:
        limit_memory(memory_limit_bytes)
    os.nice(niceness)
    connection: Connection = Connection(socket)
    threading.Thread(target=_end_with_broker, args=(socket,), daemon=True).start()

    def report(content: object) -> None:
        _send(connection, (PROGRESS, content))

    while True:
        try:
            work, has_file, most_file_bytes = _receive(connection)
            descriptor = recv_handle(connection) if has_file else -1
            limit_file_size(most_file_bytes)
            _send(connection, answer(work, descriptor, report))
        except (EOFError, ConnectionError):
            return


def _end_with_broker(socket: int) -> None:
    """Exit when the broker closes the socket or dies."""
    waiting = select.poll()
    waiting.register(socket, select.POLLHUP)  # macOS reports hang-ups only if asked
    while not waiting.poll():  # poll also returns when data arrives
        pass
    os._exit(0)


def answer(work: Any, descriptor: int, report: Report) -> tuple[int, object]:
    """Returns (DONE, result) or (FAILED, exception)."""
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
