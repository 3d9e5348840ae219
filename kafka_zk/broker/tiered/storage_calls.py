"""Runs a storage plugin's calls on threads, with a limit for running calls, a limit for waiting calls, and a deadline
for each call.

An object store may hang. A call that passes its deadline fails, but occupies its thread until the plugin returns. So a
store that hangs blocks only these threads.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, fail

from kafka_zk.base.clock import Timers
from kafka_zk.base.threads import RunInThread
from kafka_zk.storage.tiered.object_store import ObjectStoreError

T = TypeVar("T")


class StorageTimedOut(ObjectStoreError):
    """The call did not end in time, and may still be in progress."""


class StorageBusy(ObjectStoreError):
    """Too many calls are waiting."""


class _Call:
    def __init__(self, work: Callable[[], Any], give_up: Callable[["_Call"], None]) -> None:
        self.work = work
        self.result: Deferred[Any] = Deferred(lambda _: give_up(self))
        self.timer: Any = None


class StorageCalls:
    """``most_running``: the limit of running calls, which must not exceed the number of threads."""

    def __init__(self, clock: Timers, run_in_thread: RunInThread, most_running: int, most_waiting: int) -> None:
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._most_running = most_running
        self._most_waiting = most_waiting
        self._running_count = 0
        self._waiting: deque[_Call] = deque()

    def call(self, work: Callable[[], T], timeout_s: float) -> "Deferred[T]":
        """Run ``work`` on a thread. Fails with StorageBusy, with the exception of ``work``, or with StorageTimedOut
        after ``timeout_s``, which includes the wait for a thread. Cancel the Deferred to give up the call, which does
        not run if it still waits for a thread."""
        if len(self._waiting) >= self._most_waiting:
            return fail(StorageBusy(f"remote storage is busy: {self._most_waiting} calls are already waiting"))
        call = _Call(work, self._give_up)
        call.timer = self._clock.callLater(timeout_s, self._time_out, call, timeout_s)
        self._waiting.append(call)
        self._start()
        return call.result

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def idle_share(self) -> float:
        """Share of the threads that are idle; 1 if no thread is running a call."""
        return 1 - self._running_count / self._most_running

    def _start(self) -> None:
        while self._waiting and self._running_count < self._most_running:
            call = self._waiting.popleft()
            self._running_count += 1
            self._run_in_thread(call.work).addBoth(self._ended, call)

    def _ended(self, result: object, call: _Call) -> None:
        self._running_count -= 1
        if call.timer.active():
            call.timer.cancel()
            call.result.callback(result)  # if this is a Failure, the errbacks are called
        self._start()

    def _give_up(self, call: _Call) -> None:
        if call.timer.active():
            call.timer.cancel()
        if call in self._waiting:
            self._waiting.remove(call)

    def _time_out(self, call: _Call, timeout_s: float) -> None:
        self._give_up(call)
        call.result.errback(StorageTimedOut(f"remote storage did not answer within {timeout_s:g} s"))
