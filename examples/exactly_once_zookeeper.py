"""Exactly once, with a group that coordinates through ZooKeeper: python examples/exactly_once_zookeeper.py [ZOOKEEPER]
[BOOTSTRAP] [SOURCE] [TARGET] [GROUP] [SECONDS].

A transaction cannot include ZooKeeper. Therefore the authoritative offsets are committed in Kafka, in the transaction
of their results; the offsets in ZooKeeper are a copy for tools, written afterwards. Each partition has its own
transactional.id. A new owner takes it over before it reads, so that a former owner, which may only be paused, can no
longer commit, and then reads the authoritative offset.
"""

import sys
from collections.abc import Collection, Mapping

from kafka_zk import (
    BlockingAdmin,
    BlockingProducer,
    BlockingZookeeperConsumer,
    CommitRefused,
    ConsumerRecord,
    KafkaError,
    ProducerFenced,
    RebalanceListener,
    TopicPartition,
    TransactionAbortable,
)


class Claims(RebalanceListener):
    """The partitions that were claimed since the last look."""

    def __init__(self) -> None:
        self.new: set[TopicPartition] = set()

    def before_starting_fetchers(self, consumer_id: str, partitions: Mapping[TopicPartition, int]) -> None:
        self.new.update(partitions)


class Shouting:
    """Works on the partitions that its consumer owns, with one producer per partition."""

    def __init__(self, zookeeper: str, bootstrap: str, source: str, target: str, group: str) -> None:
        self._bootstrap, self._target, self._group = bootstrap, target, group
        self._claims = Claims()
        self._producers: dict[TopicPartition, BlockingProducer] = {}
        self._copied: dict[TopicPartition, int] = {}  # where to continue if Kafka has forgotten the offset
        self._admin = BlockingAdmin(bootstrap_servers=bootstrap)
        self.consumer = BlockingZookeeperConsumer(
            [source],
            group_id=group,
            zookeeper_connect=zookeeper,
            listener=self._claims,
            auto_offset_reset="smallest",
            auto_commit_enable=False,
            isolation_level="read_committed",
        )

    def run(self, idle_ms: int) -> None:
        """Work until no record arrives for ``idle_ms``."""
        while records := self.consumer.poll(idle_ms):
            by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
            for record in records:
                by_partition.setdefault(record.tp, []).append(record)
            for tp, of_partition in by_partition.items():
                try:
                    if tp in self._claims.new or tp not in self._producers:
                        self._take_over(tp, of_partition[0].offset)
                    else:
                        self._work(tp, of_partition)
                except ProducerFenced:
                    self._give_up([tp])  # another member has claimed it, even if this one does not know it yet

    def _take_over(self, tp: TopicPartition, first_offset: int) -> None:
        """Fence all former owners, and continue after what they have committed."""
        if tp in self._claims.new:
            self._claims.new.discard(tp)
            self._copied[tp] = first_offset
        self._give_up([tp])
        producer = BlockingProducer(
            bootstrap_servers=self._bootstrap, transactional_id=f"{self._group}-{tp}", transaction_timeout_ms=30_000
        )
        self._producers[tp] = producer
        producer.init_transactions()
        committed = self._admin.groups.stable_offsets(self._group, [tp])[tp]
        # Kafka forgets the offsets of a group without members after offsets.retention.minutes; ZooKeeper does not.
        self._seek(tp, self._copied[tp] if committed < 0 else committed)

    def _work(self, tp: TopicPartition, records: list[ConsumerRecord]) -> None:
        producer, following = self._producers[tp], {tp: records[-1].offset + 1}
        try:
            with producer.transaction():
                for record in records:
                    producer.send(self._target, record.value.upper(), key=record.key)
                producer.send_offsets(following, self._group)
        except TransactionAbortable as error:
            print(f"again: {error}", file=sys.stderr)
            self._seek(tp, records[0].offset)
            return
        self._copied.update(following)
        try:
            self.consumer.commit(following)
        except CommitRefused as refused:
            print(refused, file=sys.stderr)  # the copy in ZooKeeper falls behind, without harm

    def _seek(self, tp: TopicPartition, offset: int) -> None:
        try:
            self.consumer.seek(tp, offset)
        except KafkaError:
            self._claims.new.add(tp)  # no longer owned

    def _give_up(self, tps: Collection[TopicPartition]) -> None:
        for tp in tps:
            if tp in self._producers:
                self._producers.pop(tp).close(0.0)

    def close(self) -> None:
        self._give_up(list(self._producers))
        self.consumer.close()
        self._admin.close()


def main(
    zookeeper: str = "127.0.0.1:2181",
    bootstrap: str = "127.0.0.1:9092",
    source: str = "greetings",
    target: str = "loud-greetings",
    group: str = "shouting-in-zookeeper",
    seconds: str = "5",
) -> None:
    shouting = Shouting(zookeeper, bootstrap, source, target, group)
    try:
        shouting.run(int(float(seconds) * 1000))
    finally:
        shouting.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
