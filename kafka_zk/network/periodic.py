"""Periodic work of a broker. An exception of the task is logged and does not end the schedule."""

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger, LogLevel

from kafka_zk.base.clock import Timers

_log = Logger()


class Periodic:
    """Calls ``task`` every ``interval_ms`` until ``stop``. The first call comes after one interval.

    A coroutine may still be running when the task is called again.
    """

    def __init__(self, clock: Timers, interval_ms: int, task: Callable[[], object]) -> None:
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._task = task
        self._call: Any = clock.callLater(self._interval_s, self._run)

    def stop(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _run(self) -> None:
        self._call = self._clock.callLater(self._interval_s, self._run)
        ensureDeferred(self._run_task())

    async def _run_task(self) -> None:
        try:
            work = self._task()
            if isinstance(work, Awaitable):
                await work
        except Exception:
            _log.failure("work that is due every {s} s failed", level=LogLevel.error, s=self._interval_s)
