"""A transactional producer for each partition that a member of a ZooKeeper group owns, for exactly_once_zookeeper.py.

Each partition has its own transactional.id, which a new owner takes over before it works. A former owner, which may
only be paused, can then no longer commit. The authoritative offset is the group's offset in Kafka.
"""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from kafka_zk import BlockingAdmin, BlockingProducer, RebalanceListener, TopicPartition


class FencedProducers(RebalanceListener):
    """The producers by partition. As the consumer's listener, it receives new claims; a context manager."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.group = group
        self.claimed: set[TopicPartition] = set()  # claimed, not taken over yet
        self.reached: dict[TopicPartition, int] = {}  # next offsets, if Kafka has none
        self._bootstrap = bootstrap
        self._admin = BlockingAdmin(bootstrap_servers=bootstrap)
        self._producers: dict[TopicPartition, BlockingProducer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for tp in list(self._producers):
            self.give_up(tp)
        self._admin.close()

    def before_starting_fetchers(self, consumer_id: str, partitions: Mapping[TopicPartition, int]) -> None:
        self.claimed.update(partitions)

    def get(self, tp: TopicPartition) -> BlockingProducer | None:
        """The producer of a partition; None if ``take_over`` must come first."""
        return None if tp in self.claimed else self._producers.get(tp)

    def take_over(self, tp: TopicPartition, first_offset: int) -> int:
        """Fence all former owners. Returns their committed offset, or else the next one."""
        if tp in self.claimed:
            self.claimed.discard(tp)
            self.reached[tp] = first_offset
        self.give_up(tp)
        self._producers[tp] = BlockingProducer(bootstrap_servers=self._bootstrap, transaction_timeout_ms=30_000,
                                               transactional_id=f"{self.group}-{tp}")  # fmt: skip
        self._producers[tp].init_transactions()
        committed = self._admin.groups.stable_offsets(self.group, [tp])[tp]
        # Kafka forgets the offsets of a group without members after offsets.retention.minutes; ZooKeeper does not.
        return self.reached[tp] if committed < 0 else committed

    def give_up(self, tp: TopicPartition) -> None:
        """Close a producer without waiting."""
        if tp in self._producers:
            self._producers.pop(tp).close(0.0)
