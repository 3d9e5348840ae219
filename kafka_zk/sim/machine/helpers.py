"""Helper processes of the simulated world. Their work is done immediately; their messages arrive one by one.

They run in their broker's process and die with it. Work and messages are pickled, as on a machine.
"""

import pickle
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from twisted.internet.defer import Deferred

from kafka_zk.sim.machine.process import Process
from kafka_zk.storage.files.helper_process import PROGRESS, answer

SAYS_S = (0.001, 0.2)
"""Time before each message of a helper (minimum, maximum)."""


class SimHelper:
    """Like ``storage.files.helper_process.Helper``. One object is both the process and the connection to it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._said: deque[bytes] = deque()
        self.is_alive = True

    @property
    def process(self) -> "SimHelper":
        return self

    @property
    def connection(self) -> "SimHelper":
        return self

    def fileno(self) -> int:
        return self._descriptor

    def begin(self, work: object, descriptor: int = -1) -> None:
        if not self.is_alive:
            raise ConnectionResetError("the helper is gone")
        self._said.clear()
        outcome = answer(pickle.loads(pickle.dumps(work)), descriptor, self._report)
        self._said.append(pickle.dumps(outcome))

    def _report(self, content: Any, /) -> None:
        self._said.append(pickle.dumps((PROGRESS, content)))

    def receive(self) -> tuple[int, Any]:
        """Raises EOFError when the helper has ended."""
        if not self.is_alive or not self._said:
            raise EOFError("the helper is gone")
        kind, content = pickle.loads(self._said.popleft())
        return kind, content

    def kill(self) -> None:
        self.is_alive = False

    def end(self) -> int:
        self.kill()
        return 0


class SimHelpers:
    def __init__(self, process: Process, random: Random) -> None:
        self._process = process
        self._random = random
        self._count = 0

    def start(self, memory_limit_bytes: int = 0, niceness: int = 0, locks: Sequence[int] = ()) -> Any:
        """For ``Machine(start_helper=…)``."""
        self._count += 1
        return SimHelper(self._count)

    def when_readable(self, descriptor: int) -> "Deferred[None]":
        """For ``Machine(when_readable=…)``: fires when a helper has a message or has ended."""
        heard: Deferred[None] = Deferred(lambda _: call.cancel())
        tell: Callable[[], None] = partial(heard.callback, None)
        call = self._process.callLater(self._random.uniform(*SAYS_S), tell)
        return heard
