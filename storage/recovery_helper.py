"""Helper processes that do the work of a recovery: ``HelperPool`` in the broker, ``main`` in the helper.

Python for one log at a time keeps one core busy, and the broker's own interpreter must stay free to keep its ZooKeeper
session. A helper is started with the first work, reads files only, and ends when its broker closes the pipe or dies.
Tests: tests/storage/test_recovery_helper.py.
"""

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from storage.recovery_work import Work

_IMPORT_ROOT = str(Path(__file__).resolve().parents[1])
_PROGRESS, _DONE, _FAILED = range(3)


class _Helper:
    """One process and what it is working on."""

    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        path = os.pathsep.join(filter(None, (_IMPORT_ROOT, os.environ.get("PYTHONPATH"))))
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": path},
            )
        finally:
            theirs.close()
        self.token: Any = None
        self.work: Work | None = None

    def begin(self, token: Any, work: Work) -> None:
        self.connection.send(work)
        self.token, self.work = token, work

    def end(self) -> int:
        """Kill it, which loses nothing; returns its exit code."""
        self.connection.close()
        self.process.kill()
        return self.process.wait()


class HelperPool:
    """At most ``count`` helpers, started when there is work for them.

    ``scanned_bytes`` counts what they have scanned so far.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._helpers: list[_Helper] = []
        self._queue: deque[tuple[Any, Work]] = deque()
        self._left: list[Any] = []  # tokens of works that no process could be given
        self.scanned_bytes = 0

    @property
    def is_busy(self) -> bool:
        return bool(self._queue or self._left) or any(helper.work for helper in self._helpers)

    def submit(self, token: Any, work: Work) -> None:
        """Have the work done; ``answers`` tells its result together with ``token``."""
        self._queue.append((token, work))
        self._hand_out()

    def answers(self, timeout_s: float = 0) -> Iterator[tuple[Any, Any]]:
        """(token, result) of what has been finished, waiting at most so long for the first.

        A result that is an OSError is what the helper met. None stands for a helper that ended before its work, or that
        could not be started.
        """
        left, self._left = self._left, []
        for token in left:
            yield token, None
        busy = {helper.connection: helper for helper in self._helpers if helper.work}
        for connection in wait(list(busy), timeout_s):
            helper = busy[connection]  # type: ignore[index]
            answer = self._receive(helper)
            if answer is not None:
                self._hand_out()
                yield answer

    def _receive(self, helper: _Helper) -> tuple[Any, Any] | None:
        try:
            kind, content = helper.connection.recv()
        except (EOFError, ConnectionError):
            return self._lost(helper)
        if kind == _PROGRESS:
            self.scanned_bytes += content
            return None
        token, helper.token, helper.work = helper.token, None, None
        return token, content

    def _lost(self, helper: _Helper) -> tuple[Any, Any]:
        """A helper is gone. SIGBUS means that the disk refused a page; anything else is not the log's fault."""
        helper.connection.close()
        code = helper.process.wait()
        self._helpers.remove(helper)
        if code == -signal.SIGBUS:
            return helper.token, OSError(f"the disk failed under {helper.work}")
        return helper.token, None

    def _hand_out(self) -> None:
        while self._queue:
            idle = next((helper for helper in self._helpers if helper.work is None), None)
            if idle is None and len(self._helpers) >= self._count:
                return
            token, work = self._queue.popleft()
            try:
                if idle is None:
                    idle = _Helper()
                    self._helpers.append(idle)
                idle.begin(token, work)
            except OSError:  # no process to be had, or it died since its last work
                self._left.append(token)
                if idle is not None:
                    self._helpers.remove(idle)
                    idle.end()

    def close(self) -> None:
        """End the helpers, whatever they are doing."""
        for helper in self._helpers:
            helper.end()
        self._helpers.clear()
        self._queue.clear()
        self._left.clear()


def main(descriptor: int) -> None:
    """The helper's life: work, answer, until the broker closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the broker's to answer
    connection: Connection = Connection(descriptor)

    def report(size_bytes: int) -> None:
        connection.send((_PROGRESS, size_bytes))

    while True:
        try:
            work = connection.recv()
            try:
                answer = _DONE, work.run(report)
            except OSError as error:
                answer = _FAILED, error
            connection.send(answer)
        except (EOFError, ConnectionError):
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
