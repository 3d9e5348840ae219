"""Follows ZooKeeper's health on a thread of its own, for programs without a reactor."""

from collections import deque
from collections.abc import Callable
from threading import Event as Flag
from threading import Thread

from kafka_zk.base.events import Event
from kafka_zk.recorder.zookeeper_health.ensemble import EnsembleHealth
from kafka_zk.recorder.zookeeper_health.poller import HealthPoller
from kafka_zk.registry.client.client import SessionState

INTERVAL_S = 1.0
_MOST_WAITING = 10_000


class HealthFollower:
    """Polls from its creation until ``close``.

    Args:
        zookeeper: a connection string.
        session: returns the state of this process's own session; called on the follower's thread.
    """

    def __init__(self, zookeeper: str, session: Callable[[], SessionState | None]) -> None:
        self._poller = HealthPoller(zookeeper, session)
        self._health = EnsembleHealth()
        self._found: deque[Event] = deque(maxlen=_MOST_WAITING)
        self._ends = Flag()
        Thread(target=self._follow, name="zookeeper-health-follower", daemon=True).start()

    def events(self) -> list[Event]:
        """What was found since the last call."""
        return [self._found.popleft() for _ in range(len(self._found))]

    def close(self) -> None:
        self._ends.set()

    def _follow(self) -> None:
        while not self._ends.is_set():
            found = self._poller.look()
            if found is not None:
                self._found.extend(self._health.step(found.readings, found.asked_ms, found.session))
            self._ends.wait(INTERVAL_S)
