"""A group's driver on plain values: the test makes the group's decisions and sees the commits. Also helpers that the
tests of such a consumer share.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock, deferLater

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.zookeeper_consumer import ZookeeperConsumer
from kafka_zk.rebalance.delivery import Delivery, Start
from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.znodes.brokers import BrokerInfo, encode
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, finish

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Refusal(NamedTuple):
    reason: str


class FakeGroup:
    """Stands for GroupDriver and its lease, with one consumer. ``committed`` is the offset registry."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.lease = self
        self.acting = True
        self.held_back_count = 0
        self.delivery: Delivery
        self.owned: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.commits: list[dict[TopicPartition, int]] = []
        self.refusing: str | None = None
        self.commit_takes_s = 0.0
        self.registration: Any = None

    def __call__(
        self, client: Any, clock: Any, identity: Any, delivery: Any, config: Any, observe: Any
    ) -> "FakeGroup":
        self.delivery = delivery
        self.registration = identity.registration
        return self

    async def start(self) -> None:
        return

    def may_act(self) -> bool:
        return self.acting

    def report_if_ended(self) -> None:
        self.held_back_count += 1

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Refusal | None]:
        if self.commit_takes_s:
            await deferLater(self.clock, self.commit_takes_s)  # type: ignore[arg-type]
        answers: dict[TopicPartition, Refusal | None] = {}
        for tp, offset in offsets.items():
            if self.refusing:
                answers[tp] = Refusal(self.refusing)
            elif tp not in self.owned:
                answers[tp] = Refusal("not the owner")
            else:
                answers[tp] = None
                self.committed[tp] = offset
        self.commits.append({tp: offset for tp, offset in offsets.items() if answers[tp] is None})
        return answers

    async def leave(self) -> None:
        await self._give_back(frozenset(self.owned))

    def assign(self, *partitions: TopicPartition, thread: int = 0) -> None:
        """The group gives partitions to this consumer."""
        self.owned |= dict.fromkeys(partitions, thread)
        self.delivery.start({tp: Start(thread, self.committed.get(tp, -1)) for tp in partitions})

    def revoke(self, *partitions: TopicPartition) -> "Deferred[None]":
        """The group revokes partitions; fires when they are released."""
        return run(self._give_back(frozenset(partitions)))

    async def _give_back(self, partitions: frozenset[TopicPartition]) -> None:
        offsets = await self.delivery.stop(partitions)
        assert set(offsets) == partitions
        for tp, offset in offsets.items():
            if self.owned.pop(tp, None) is not None and offset is not None:
                self.committed[tp] = offset

    def written(self, tp: TopicPartition) -> list[int]:
        """Every committed offset of a partition, in order."""
        return [commit[tp] for commit in self.commits if tp in commit]

    def lose(self, *partitions: TopicPartition) -> None:
        """Lose partitions, as at the end of a session."""
        for tp in partitions:
            del self.owned[tp]
        self.delivery.drop(frozenset(partitions))


class _ZooKeeper:
    """A ZooKeeper that knows only the brokers."""

    session_timeout_ms = 6_000

    def __init__(self, brokers: FakeCluster) -> None:
        self.brokers = brokers

    async def children(self, path: str) -> tuple[list[str], None]:
        return [str(node_id) for node_id in self.brokers.node_ids], None

    async def get(self, path: str) -> tuple[bytes, ZnodeStat]:
        node_id = int(path.rpartition("/")[2])
        return encode(BrokerInfo(node_id, f"b{node_id}", 9092)), ZnodeStat(*[0] * 11)

    def close(self) -> "Deferred[None]":
        return succeed(None)


def joined(clock: Clock, brokers: FakeCluster, group: FakeGroup, *, streams: int = 1, listener: Any = None,
           **options: Any) -> ZookeeperConsumer:  # fmt: skip
    """A consumer that has joined and has no partitions yet."""

    async def open_client() -> Any:
        return _ZooKeeper(brokers)

    consumer = ZookeeperConsumer(
        clock,
        listener=listener,
        open_client=open_client,
        make_driver=group,  # type: ignore[arg-type]
        connect=brokers.connect,
        **{"group_id": "g", "auto_offset_reset": "smallest", **options},
    )

    consumer.subscribe(["t"], streams=streams)
    finish(clock, run(consumer.start()))
    return consumer


def write(cluster: FakeCluster, tp: TopicPartition, base_offset: int, count: int, value: bytes | None = None) -> None:
    builder = RecordBatchBuilder()
    for index in range(count):
        builder.append(1000, b"k", b"%d" % (base_offset + index) if value is None else value)
    cluster.batches.setdefault(tp, []).append(builder.build(base_offset=base_offset))
    cluster.model.logs.setdefault(tp, []).extend([b""] * count)


def poll(clock: Clock, consumer: ZookeeperConsumer, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = finish(clock, run(consumer.poll(timeout_ms)))
    return records


def offsets(records: list[ConsumerRecord], tp: TopicPartition = A) -> list[int]:
    return [record.offset for record in records if record.tp == tp]
