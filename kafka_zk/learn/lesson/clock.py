"""The lesson's time: the wall clock without the reader's pauses. Thread-safe."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafka_zk.base.clock import wall_ms


class LessonClock:
    """``now_ms``: the wall clock, in ms."""

    def __init__(self, now_ms: Callable[[], int] = wall_ms) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._holders = 0
        self._since_ms = 0  # when the clock was last stopped
        self._held_ms = 0

    def hold(self) -> None:
        """Stop the clock until ``resume`` is called as often as ``hold``."""
        with self._lock:
            if self._holders == 0:
                self._since_ms = self._now_ms()
            self._holders += 1

    def resume(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                self._held_ms += self._now_ms() - self._since_ms

    @contextmanager
    def held(self) -> Iterator[None]:
        self.hold()
        try:
            yield
        finally:
            self.resume()

    def lesson_ms(self, wall_ms: int) -> int:
        with self._lock:
            return (min(wall_ms, self._since_ms) if self._holders else wall_ms) - self._held_ms
