"""A report of what one rebalance changed, and how long it took. Pure."""

from collections.abc import Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import RebalanceFinished


class RoundReport:
    def __init__(self, owned: Iterable[TopicPartition], cause: str, now_ms: float) -> None:
        self._before = frozenset(owned)  # owned when the round began
        self._stopped: set[TopicPartition] = set()
        self._started: set[TopicPartition] = set()
        self._cause = cause
        self._began_ms = now_ms

    def stopped(self, partitions: Iterable[TopicPartition]) -> None:
        self._stopped.update(partitions)

    def started(self, partitions: Iterable[TopicPartition]) -> None:
        self._started.update(partitions)

    def finished(self, owned: Iterable[TopicPartition], actor: str, now_ms: float) -> RebalanceFinished:
        """The report, once ``owned`` equals the target."""
        now_owned = set(owned)
        return RebalanceFinished(
            int(now_ms),
            actor,
            self._cause,
            0,
            int(now_ms - self._began_ms),
            tuple(sorted(self._before - self._stopped)),
            tuple(sorted(self._before & self._stopped)),
            tuple(sorted(now_owned & self._started)),
        )
