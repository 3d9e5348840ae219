"""Helper processes for recovery work.

Recovery runs in other processes because a Python process uses one core, and the broker must keep its ZooKeeper session.
The first work item starts a helper. Helpers only read files.
"""

import signal
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any

from kafka_zk.storage.files.helper_process import FAILED, PROGRESS, Helper
from kafka_zk.storage.log.recovery_work import Work


class _RecoveryHelper(Helper):
    """A helper process and its current work."""

    def __init__(self) -> None:
        super().__init__()
        self.token: Any = None
        self.work: Work | None = None

    def take(self, token: Any, work: Work) -> None:
        self.begin(work)
        self.token, self.work = token, work


class HelperPool:
    """Up to ``count`` helpers, started when needed. ``scanned_bytes``: the total that all helpers have reported."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._helpers: list[_RecoveryHelper] = []
        self._queue: deque[tuple[Any, Work]] = deque()
        self._left: list[Any] = []  # tokens of work items for which no process could be started
        self.scanned_bytes = 0

    @property
    def is_busy(self) -> bool:
        return bool(self._queue or self._left) or any(helper.work for helper in self._helpers)

    def submit(self, token: Any, work: Work) -> None:
        """Queue a work item. ``results`` returns its result with ``token``."""
        self._queue.append((token, work))
        self._hand_out()

    def results(self, timeout_s: float = 0) -> Iterator[tuple[Any, Any]]:
        """(Token, result); waits up to ``timeout_s`` for the first.

        A result may be the helper's OSError. None means that the helper died or could not be started.
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

    def _receive(self, helper: _RecoveryHelper) -> tuple[Any, Any] | None:
        try:
            kind, content = helper.receive()
        except (EOFError, ConnectionError):
            return self._lost(helper)
        if kind == PROGRESS:
            self.scanned_bytes += content
            return None
        token, helper.token, helper.work = helper.token, None, None
        if kind == FAILED and not isinstance(content, OSError):
            return token, None  # the owner does the work and gets the same error
        return token, content

    def _lost(self, helper: _RecoveryHelper) -> tuple[Any, Any]:
        """The result of a dead helper: SIGBUS means a disk error; other signals have nothing to do with the log."""
        helper.connection.close()
        code = helper.process.wait()
        self._helpers.remove(helper)
        if code == -signal.SIGBUS:
            return helper.token, OSError(f"the disk failed (SIGBUS) during {helper.work}")
        return helper.token, None

    def _hand_out(self) -> None:
        while self._queue:
            idle = next((helper for helper in self._helpers if helper.work is None), None)
            if idle is None and len(self._helpers) >= self._count:
                return
            token, work = self._queue.popleft()
            try:
                if idle is None:
                    idle = _RecoveryHelper()
                    self._helpers.append(idle)
                idle.take(token, work)
            except OSError:  # no process, or the helper died after its last work
                self._left.append(token)
                if idle is not None:
                    self._helpers.remove(idle)
                    idle.end()

    def close(self) -> None:
        """End the helpers, even if they are working."""
        for helper in self._helpers:
            helper.end()
        self._helpers.clear()
        self._queue.clear()
        self._left.clear()
