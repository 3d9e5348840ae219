"""One partition on this broker: who leads it, and how far it can be read.

Pure state over a log. ``high_watermark`` bounds what consumers see, ``last_stable_offset`` what read_committed sees;
followers read up to the log end.

Source: Partition.scala@3.9.
"""

import enum
from typing import Any

from kafka_zk import uuids
from kafka_zk.protocol.errors import ApiError, ErrorCode
from storage.log import Log
from storage.types import TopicPartition


class Bound(enum.Enum):
    """Up to where a reader may read."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    LAST_STABLE_OFFSET = "last stable offset"


class Partition:
    """Leadership of a topic partition as the controller last told it, and the local log.

    ``refusal`` is set when this broker cannot serve the partition at all (its log directory failed, or the topic asks
    for something that is not built); every request is answered with it.
    """

    __slots__ = (
        "_flush_count",
        "_held_back_from",
        "broker_id",
        "controller_epoch",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "partition_epoch",
        "refusal",
        "replicas",
        "topic_id",
        "topic_partition",
    )

    def __init__(self, broker_id: int, topic_partition: TopicPartition) -> None:
        self.broker_id = broker_id
        self.topic_partition = topic_partition
        self.topic_id = uuids.ZERO
        self.log: Log | None = None
        self.leader = -1
        self.leader_epoch = -1
        self.controller_epoch = -1
        self.partition_epoch = -1
        self.isr: list[int] = []
        self.replicas: list[int] = []
        self.refusal: ErrorCode | None = None
        self._flush_count = 0
        self._held_back_from = 0

    def take_state(self, state: Any) -> None:
        """Take over a LeaderAndIsr partition state."""
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.partition_epoch = state.partition_epoch
        self.isr = list(state.isr)
        self.replicas = list(state.replicas)

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    def leader_log(self, current_leader_epoch: int = -1) -> Log:
        """The log, if this broker leads the partition in the epoch that the client knows (-1: any).

        Raises: ApiError: the refusal, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320).
        """
        if self.refusal is not None:
            raise ApiError(self.refusal)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            older = current_leader_epoch < self.leader_epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.leader != self.broker_id or self.log is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log

    def check_enough_replicas(self, log: Log) -> None:
        """Raises ApiError(NOT_ENOUGH_REPLICAS) when an acks=all append would not be safe."""
        if len(self.isr) < log.config.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    @property
    def high_watermark(self) -> int:
        """With the leader alone in sync, what it appended is committed; but what ``flush.messages`` wants durable
        only when it is."""
        log = self.log
        if log is None:
            return 0
        return max(self._held_back_from, log.recovery_point) if self._flush_count else log.log_end_offset

    def flush_begins(self, offset: int) -> None:
        """An append asked for a flush: nothing from ``offset`` on is seen before it is durable."""
        if not self._flush_count:
            self._held_back_from = offset
        self._flush_count += 1

    def flush_ended(self) -> None:
        self._flush_count -= 1

    @property
    def last_stable_offset(self) -> int:
        """No transaction is ever open here yet: everything committed is stable."""
        return self.high_watermark

    def readable_end(self, bound: Bound) -> int:
        """The first offset that a reader under ``bound`` must not see."""
        if bound is Bound.LOG_END:
            return self.log.log_end_offset if self.log is not None else 0
        return self.high_watermark if bound is Bound.HIGH_WATERMARK else self.last_stable_offset
