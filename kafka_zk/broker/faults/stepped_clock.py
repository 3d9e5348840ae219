"""The system clock with a wall clock that can be stepped, for a broker that accepts faults."""

from kafka_zk.base.clock import SystemClock, Timers, wall_ms


class SteppedClock:
    """``step_ms``: added to the wall clock, but not to timers. ``read_count``: how often the wall clock was read."""

    def __init__(self, reactor: Timers) -> None:
        system = SystemClock(reactor)
        self.seconds = system.seconds
        self.callLater = system.callLater
        self._system_ns = system.wall_ns
        self.step_ms = 0
        self.read_count = 0

    def wall_ms(self) -> int:
        self.read_count += 1
        return wall_ms() + self.step_ms

    def wall_ns(self) -> int:
        self.read_count += 1
        return self._system_ns() + self.step_ms * 1_000_000
