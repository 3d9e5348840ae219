"""The object store of the simulated world: the folder BUCKET of its disk, reached over a network with faults.

A storage plugin's call, which a real broker makes on a thread, consists of two events: it acts on the bucket in one
step, and later its result arrives. A broker that dies or stops waiting between the two never learns the effect. Each
fault concerns the calls of one broker, or of all brokers.
"""

import errno
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from kafka_zk.base.threads import RunInThread
from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.machine.scheduler import VirtualClock
from kafka_zk.storage.files import files
from kafka_zk.storage.tiered.object_store import ObjectStoreError

T = TypeVar("T")
BUCKET = "/bucket"
AWAY, SLOW, HANGS, FAILS, LOSES, STALE = "away", "slow", "hangs", "fails", "loses", "stale"
ALL = ""
"""The host of a fault that concerns all brokers."""
ACTS_S = (0.001, 0.05)
"""Time until a call acts, and from then until its result arrives (minimum, maximum)."""
SLOW_S = (0.3, 3.0)
HANGS_S = (4.0, 20.0)
STALE_MS = 5_000
"""Age from which a new object is visible to all readers."""
_MOST_OPERATIONS = 12
"""A faulty call fails after fewer disk operations than this; a copy needs about twice this number."""


class SimObjectStore:
    """``removed``: called with the path of each object that is about to be removed."""

    def __init__(self, clock: VirtualClock, random: Random, now_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._random = random
        self._now_ms = now_ms
        self._in_force: Counter[tuple[str, str]] = Counter()
        self._operations_left: int | None = None
        self._hides_new_objects = False
        self.removed: Callable[[str], None] = lambda path: None

    def begin(self, kind: str, host: str = ALL) -> Callable[[], None]:
        """Begin a fault. Returns a function that ends it."""
        key = kind, host
        self._in_force[key] += 1

        def end() -> None:
            self._in_force[key] -= 1

        return end

    def threads(self, process: Process) -> Callable[[str, int], RunInThread]:
        """For ``Machine(daemon_threads=…)``."""

        def start(name: str, count: int) -> RunInThread:
            def run(work: Callable[[], T], /) -> "Deferred[T]":
                done: Deferred[T] = Deferred()
                self._plan_act(process, work, done, is_read=name == "reader")
                return done

            return run

        return start

    def fault(self, operation: str, path: str) -> OSError | None:
        """For ``SimDisk.fault``."""
        if not path.startswith(f"{BUCKET}/"):
            return None
        if self._operations_left is not None:
            self._operations_left -= 1
            if self._operations_left < 0:
                return OSError(errno.EIO, "the store failed", path)
        if operation == "read" and self._hides_new_objects:
            found = files.status(path)
            if found is not None and self._now_ms() - found.modified_ms < STALE_MS:
                return FileNotFoundError(errno.ENOENT, "not visible yet", path)
        if operation == "remove":
            self.removed(path)
        return None

    def _is(self, kind: str, process: Process) -> bool:
        return self._in_force[kind, ALL] > 0 or self._in_force[kind, process.name] > 0

    def _plan_act(self, process: Process, work: Callable[[], T], done: "Deferred[T]", *, is_read: bool) -> None:
        least_s, most_s = ACTS_S
        if self._is(HANGS, process) and self._random.random() < 0.5:
            least_s, most_s = HANGS_S
        elif self._is(SLOW, process):
            least_s, most_s = SLOW_S
        delay_s = self._random.uniform(least_s, most_s)
        self._clock.plan(delay_s, process.receive, self._act, process, work, done, is_read)

    def _act(self, process: Process, work: Callable[[], T], done: "Deferred[T]", is_read: bool) -> None:
        if self._is(AWAY, process):
            waits_s = self._random.choice((ACTS_S, HANGS_S))
            refusal = ObjectStoreError("the store cannot be reached")
            self._clock.plan(self._random.uniform(*waits_s), process.receive, done.errback, refusal)
            return
        if self._is(FAILS, process) and self._random.random() < 0.5:
            self._operations_left = self._random.randrange(_MOST_OPERATIONS)
        self._hides_new_objects = is_read and self._is(STALE, process)
        try:
            result: Any = work()
        except Exception:
            result = Failure()
        finally:
            self._operations_left, self._hides_new_objects = None, False
        if self._is(LOSES, process) and self._random.random() < 0.5:
            result = Failure(ObjectStoreError("the connection was lost"))
        self._clock.plan(self._random.uniform(*ACTS_S), process.receive, done.callback, result)
