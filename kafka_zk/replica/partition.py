"""One partition on this broker: who leads it, and how far it can be read.

Pure state over a log. ``high_watermark`` bounds what consumers see, ``last_stable_offset`` what read_committed sees;
followers read up to the log end.

Source: Partition.scala@3.9.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.log import Log
from kafka_zk.storage.types import TopicPartition


class Bound(enum.Enum):
    """Up to where a reader may read."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    LAST_STABLE_OFFSET = "last stable offset"


class Role(enum.Enum):
    """What this broker is to a partition that it hosts."""

    NEW = "new"  # nothing was decided yet
    LEADER = "leader"
    FOLLOWER = "follower"
    REFUSED = "refused"  # not served as things are: its topic asks for what is not built, or is another one
    OFFLINE = "offline"  # its log directory failed; until a restart
    STOPPED = "stopped"  # the controller took it away; nobody hosts it any more


_SERVABLE = frozenset({Role.NEW, Role.LEADER, Role.FOLLOWER, Role.REFUSED})

TRANSITIONS: Mapping[Role, frozenset[Role]] = {
    Role.NEW: frozenset(),
    Role.LEADER: _SERVABLE,
    Role.FOLLOWER: _SERVABLE,
    Role.REFUSED: _SERVABLE,
    Role.OFFLINE: _SERVABLE | {Role.OFFLINE},
    Role.STOPPED: _SERVABLE,
}
"""New role -> those it may be taken from."""

_LEADER = Role.LEADER


class IllegalRoleChange(Exception):
    """A change of role that TRANSITIONS does not allow; nothing was changed."""


class LeaderAndIsrPartitionState(NamedTuple):
    """What LeaderAndIsr says of one partition. Source: LeaderAndIsrRequest.json@3.9."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    partition_epoch: int
    isr: Sequence[int]
    replicas: Sequence[int]
    is_new: bool = False


class Partition:
    """What the controller last said of a topic partition, what this broker made of it (``role``), and the local log.

    ``refusal`` is the error with which every request is answered while the role is REFUSED or OFFLINE. A LEADER has a
    log.
    """

    __slots__ = (
        "_flush_count",
        "_held_back_from",
        "broker_id",
        "commits_later",
        "controller_epoch",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "partition_epoch",
        "refusal",
        "replicas",
        "role",
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
        self.role = Role.NEW
        self.refusal: ErrorCode | None = None
        self.commits_later = False
        self._flush_count = 0
        self._held_back_from = 0

    def change_role(self, role: Role, refusal: ErrorCode | None = None) -> None:
        """Raises: IllegalRoleChange."""
        if self.role not in TRANSITIONS[role]:
            raise IllegalRoleChange(f"{self.topic_partition} cannot become {role.value}, it is {self.role.value}")
        assert (refusal is not None) is (role in (Role.REFUSED, Role.OFFLINE))
        self.role = role
        self.refusal = refusal

    def take_state(self, state: LeaderAndIsrPartitionState) -> None:
        """Take over what the controller says; ``become`` follows, when the log is open or is known not to be."""
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.partition_epoch = state.partition_epoch
        self.isr = list(state.isr)
        self.replicas = list(state.replicas)
        self._note_commits()

    def become(self, refusal: ErrorCode | None) -> None:
        """Leader or follower as the controller said, unless ``refusal`` says why this broker cannot."""
        if refusal is None:
            self.change_role(Role.LEADER if self.is_leader else Role.FOLLOWER)
        else:
            self.change_role(Role.OFFLINE if refusal is ErrorCode.KAFKA_STORAGE_ERROR else Role.REFUSED, refusal)

    @property
    def is_leader(self) -> bool:
        """Whether the controller named this broker, whatever its role."""
        return self.leader == self.broker_id

    def leader_log(self, current_leader_epoch: int = -1) -> Log:
        """The log, if this broker leads the partition in the epoch that the client knows (-1: any).

        Raises: ApiError: the refusal, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320).
        """
        if self.role is not _LEADER or (current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch):
            self._check_leads(current_leader_epoch)
        return self.log  # type: ignore[return-value]  # a leader has one

    def _check_leads(self, current_leader_epoch: int) -> None:
        if self.refusal is not None:
            raise ApiError(self.refusal)
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            older = current_leader_epoch < self.leader_epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self.role is not _LEADER:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def check_enough_replicas(self, log: Log) -> None:
        """Raises ApiError(NOT_ENOUGH_REPLICAS) when an acks=all append would not be safe."""
        if len(self.isr) < log.config.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def has_committed(self, last_offset: int) -> bool:
        """Whether every replica in sync has the record at ``last_offset``, so that an acks=all append is done.

        Raises: ApiError: as ``leader_log``; NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few are in sync by then.
        """
        log = self.leader_log()
        if last_offset >= self.high_watermark:
            return False
        if len(self.isr) < log.config.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

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
        self._note_commits()

    def flush_ended(self) -> None:
        self._flush_count -= 1
        self._note_commits()

    def _note_commits(self) -> None:
        """``commits_later``: an append is not committed when it is written. An attribute, as every produce asks."""
        self.commits_later = self._flush_count > 0 or len(self.isr) > 1

    @property
    def last_stable_offset(self) -> int:
        """No transaction is ever open here yet: everything committed is stable."""
        return self.high_watermark

    def readable_end(self, bound: Bound) -> int:
        """The first offset that a reader under ``bound`` must not see."""
        if bound is Bound.LOG_END:
            return self.log.log_end_offset if self.log is not None else 0
        return self.high_watermark if bound is Bound.HIGH_WATERMARK else self.last_stable_offset
