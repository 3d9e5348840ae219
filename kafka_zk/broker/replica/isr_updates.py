"""Updates led partitions after followers' fetches and as time passes, with ``isr_state`` and ``remote_replicas``.

A fetch may let a follower join the ISR and advance the high watermark; ``shrink`` removes lagging followers; the
partition adopts the controller's responses.

Source: updateFollowerFetchState, maybeExpandIsr, maybeShrinkIsr and submitAlterPartition in Partition.scala@3.9. Tests:
tests/kafka_zk/broker/handlers/data/test_replica_fetch_isr.py.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.events import EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.alter_partition_manager import AlterPartitions, Answer, Answered, IsrChange
from kafka_zk.broker.replica.events import IsrChanged
from kafka_zk.broker.replica.isr_state import Committed, Ending, Pending, WrittenIsr, ending_of
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.log.log import Log

_log = Logger()


class LogStart(NamedTuple):
    """Purgatory key of requests that wait for followers' log start offsets."""

    tp: TopicPartition
    kind: str = "log start"


class Follower(NamedTuple):
    """The fetching broker; its epoch is -1 if unknown."""

    broker_id: int
    broker_epoch: int


class _Nobody:
    """Rejects changes while there is no controller."""

    def submit(self, change: IsrChange, answered: Answered) -> None:
        answered(ErrorCode.OPERATION_NOT_ATTEMPTED)


class IsrUpdates:
    """The ISR changes of all partitions that this broker leads.

    Args:
        wake: called when a high watermark or a follower's log start offset moved.

    Attributes:
        alter_partitions: set when the broker starts.
        expands, shrinks, failed_updates: counts.
    """

    def __init__(self, clock: Timers, wake: Callable[[TopicPartition | LogStart], None], events: EventSource) -> None:
        self.alter_partitions: AlterPartitions = _Nobody()
        self.expands = self.shrinks = self.failed_updates = 0
        self._clock = clock
        self._wake = wake
        self._events = events

    def now_ms(self) -> int:
        """Current time on the monotonic clock that measures lag."""
        return int(self._clock.seconds() * 1000)

    def record_fetch(
        self,
        partition: Partition,
        log: Log,
        follower: Follower,
        offset: int,
        log_start_offset: int,
        log_end_offset: int,
    ) -> None:
        """Record a follower's fetch. ``log_end_offset``: the leader's log end when the fetch read the log."""
        remotes = partition.remotes
        assert remotes is not None
        broker_id, broker_epoch = follower
        now_ms = self.now_ms()
        known = remotes.followers[broker_id]
        has_moved = known.log_end_offset != offset
        has_deleted = known.log_start_offset != log_start_offset
        known.record_fetch(offset, log_start_offset, now_ms, log_end_offset, broker_epoch)
        state = remotes.state
        if (
            isinstance(state, Committed)
            and broker_id not in state.isr
            and remotes.may_join(broker_id, log.high_watermark)
        ):
            self._propose(partition, state.expand(broker_id))
        if has_moved and partition.advance_high_watermark(now_ms):
            self._wake(partition.tp)
        if has_deleted:
            self._wake(LogStart(partition.tp))

    def shrink(self, partitions: Iterable[Partition]) -> Iterator[TopicPartition]:
        """Propose to remove lagging followers, one partition per step."""
        for partition in partitions:
            log, remotes = partition.log, partition.remotes
            if log is None or remotes is None:
                continue
            now_ms = self.now_ms()
            state = remotes.state
            lagging = remotes.out_of_sync(log.log_end_offset, now_ms)
            if lagging and isinstance(state, Committed):
                _log.info(
                    "{tp}: brokers {lagging} lag behind {end}, high watermark {mark}",
                    tp=partition.tp,
                    lagging=lagging,
                    end=log.log_end_offset,
                    mark=log.high_watermark,
                )
                self._propose(partition, state.shrink(lagging))
            self._advance(partition)
            yield partition.tp

    def brokers_gone(self, partitions: Iterable[Partition]) -> Iterator[TopicPartition]:
        """Advance high watermarks that waited for brokers that are gone, one partition per step."""
        for partition in partitions:
            self._advance(partition)
            yield partition.tp

    def _advance(self, partition: Partition) -> None:
        if partition.advance_high_watermark(self.now_ms()):
            self._wake(partition.tp)

    def _propose(self, partition: Partition, pending: Pending) -> None:
        assert partition.remotes is not None
        partition.remotes.state = pending
        self._submit(partition, pending)

    def _submit(self, partition: Partition, pending: Pending) -> None:
        change = IsrChange(
            partition.tp,
            partition.topic_id,
            partition.leader_epoch,
            partition.partition_epoch,
            pending.proposed,
            partition.controller_epoch,
        )
        self.alter_partitions.submit(change, partial(self._answered, partition, pending))

    def _answered(self, partition: Partition, pending: Pending, answer: Answer) -> None:
        remotes = partition.remotes
        if partition.role is not Role.LEADER or remotes is None or remotes.state is not pending:
            return  # a newer decision of the controller has replaced the proposal
        if isinstance(answer, WrittenIsr):
            self._written(partition, pending, answer)
            return
        self.failed_updates += 1
        ending = ending_of(answer)
        _log.info(
            "{tp}: the ISR {isr} was not written: {answer}, {ending}",
            tp=partition.tp,
            isr=pending.proposed,
            answer=answer.name,
            ending=ending.value,
        )
        if ending is Ending.REVERTED:
            remotes.state = pending.committed
            remotes.may_not_join(pending.proposed)
            self._advance(partition)
            self._wake(partition.tp)
        elif ending is Ending.RETRIED:
            self._submit(partition, pending)

    def _written(self, partition: Partition, pending: Pending, written: WrittenIsr) -> None:
        if not partition.take_written_isr(written):
            self.failed_updates += 1
            return
        is_expanded = len(pending.proposed) > len(pending.committed.isr)
        self.expands += is_expanded
        self.shrinks += not is_expanded
        self._events.emit(
            IsrChanged, partition.tp, written.isr, written.partition_epoch, cause="expand" if is_expanded else "shrink"
        )
        self._advance(partition)
