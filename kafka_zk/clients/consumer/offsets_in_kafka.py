"""``offsets.storage=kafka``: the group coordinates through ZooKeeper and stores its offsets in the broker's
coordinator.

Kafka 0.8.2 introduced this to migrate groups. With ``dual.commit.enabled``, offsets are written to both places, and a
partition starts at the larger one; users disable dual commit when all members store offsets in Kafka. When a partition
starts and one place lacks its offset, the offset is written there, so that idle partitions migrate, too.

The coordinator does not know the owners in ZooKeeper. As in Kafka's own consumer, the coordinator therefore fences no
commit; this consumer checks its lease before it sends one. On the reactor thread.

Source: ZookeeperConsumerConnector.scala@0.8.2.2 and 0.10.2.2.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import ClientClosed, KafkaError
from kafka_zk.clients.connection.group_coordinator import GroupCoordinator
from kafka_zk.clients.connection.waiting import Reactor, run, sleep
from kafka_zk.clients.consumer.group_commits import NOT_THE_OWNER, Write
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.starts_looked_up import StartsLookedUp
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.rebalance.delivery import Start
from kafka_zk.registry.offsets import OffsetRefused

_log = Logger()

_SETTLED = frozenset({ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE})
_IN_DOUBT = OffsetRefused("the session is not certain to be alive")

Offsets = Mapping[TopicPartition, int]
Answers = dict[TopicPartition, Any]


class OffsetsInKafka:
    """A ``rebalance.delivery.Delivery`` between a group's driver and the consumer's delivery.

    Args:
        config: uses offsets.commit.max.retries, its back-off, and dual.commit.enabled.
        may_act: True if the owned partitions are certainly still owned.
        write: commits to ZooKeeper.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ZookeeperConsumerConfig,
        coordinator: GroupCoordinator,
        delivery: GroupDelivery,
        may_act: Callable[[], bool],
        write: Write,
    ) -> None:
        self._reactor = reactor
        self._coordinator = coordinator
        self._delivery = delivery
        self._may_act = may_act
        self._write = write
        self._dual = config.dual_commit_enabled
        self._max_retries = config.offsets_commit_max_retries
        self._backoff_s = config.offsets_channel_backoff_ms / 1000
        self._in_zookeeper: dict[TopicPartition, int] = {}
        self._starts = StartsLookedUp(delivery.start, self._look_up)
        self._turn = DeferredLock()
        self.prepare = delivery.prepare
        self.suspend = delivery.suspend
        self.resume = delivery.resume
        self.failed = delivery.failed

    # --- rebalance.delivery.Delivery ---

    def start(self, starts: Mapping[TopicPartition, Start]) -> None:
        self._in_zookeeper.update({tp: start.offset for tp, start in starts.items()})
        threads = {tp: start.thread for tp, start in starts.items()}
        run(self._starts.begin(threads)).addErrback(self._lost)

    def stop(self, partitions: frozenset[TopicPartition]) -> Awaitable[Mapping[TopicPartition, int | None]]:
        self._starts.withdraw(partitions)
        return run(self._stop(partitions))

    def drop(self, partitions: frozenset[TopicPartition]) -> None:
        self._starts.withdraw(partitions)
        self._delivery.drop(partitions)

    # --- commits ---

    async def commit(self, offsets: Offsets) -> Answers:
        """Commit to Kafka; with dual commit, then write the committed offsets to ZooKeeper. Results are those of the
        driver's commit.
        """
        owned = {tp: offset for tp, offset in offsets.items() if tp in self._delivery.owned}
        answers: Answers = dict.fromkeys(offsets, NOT_THE_OWNER)
        answers.update(await self._commit(owned))
        return answers

    async def _commit(self, offsets: Offsets) -> Answers:
        await self._turn.acquire()
        try:
            answers = await self._to_kafka(offsets)
            written = {tp: offset for tp, offset in offsets.items() if answers[tp] is None}
            if self._dual and written:
                answers.update(await self._write(written))
        finally:
            self._turn.release()
        return answers

    async def _to_kafka(self, offsets: Offsets) -> Answers:
        """Failed commits are repeated ``max_retries`` times, except after OFFSET_METADATA_TOO_LARGE."""
        answers: Answers = {}
        left = dict(offsets)
        for tries_left in range(self._max_retries, -1, -1):
            if not left:
                break
            if not self._may_act():
                return answers | dict.fromkeys(left, _IN_DOUBT)
            try:
                codes = await self._coordinator.commit(left)
            except KafkaError as error:
                return answers | dict.fromkeys(left, OffsetRefused(str(error)))
            for tp, code in codes.items():
                answers[tp] = None if code is ErrorCode.NONE else OffsetRefused(f"the coordinator says {code.name}")
            left = {tp: offset for tp, offset in left.items() if codes[tp] not in _SETTLED}
            if left and tries_left:
                await sleep(self._reactor, self._backoff_s)
        return answers

    # --- internals ---

    async def _look_up(self, tps: Collection[TopicPartition]) -> Offsets:
        in_kafka = await self._coordinator.committed(tps)
        if not self._dual:
            return in_kafka
        larger = {tp: max(in_kafka[tp], self._in_zookeeper[tp]) for tp in tps}
        uneven = {
            tp: offset for tp, offset in larger.items() if not in_kafka[tp] == self._in_zookeeper[tp] == offset
        }
        if uneven:
            self._reactor.callLater(0, self._level, uneven)  # runs after the partitions have started
        return larger

    def _level(self, offsets: Offsets) -> None:
        due = {tp: offset for tp, offset in offsets.items() if self._delivery.is_committed(tp, offset)}
        run(self.commit(due)).addErrback(self._lost)

    async def _stop(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int | None]:
        offsets = await self._delivery.stop(partitions)
        due = {tp: offset for tp, offset in offsets.items() if offset is not None}
        await self._turn.acquire()
        try:
            answers = await self._to_kafka(due)
        finally:
            self._turn.release()
        for tp, answer in answers.items():
            if answer is not None:
                _log.info("the offset of {tp} was not committed: {reason}", tp=tp, reason=answer.reason)
        return {tp: due[tp] if self._dual and tp in due and answers[tp] is None else None for tp in partitions}

    def _lost(self, failure: Failure) -> None:
        if failure.check(ClientClosed):
            return
        if failure.check(KafkaError) is None:
            _log.failure("offsets cannot be looked up", failure=failure)
        assert isinstance(failure.value, Exception)
        self._delivery.failed(failure.value)
