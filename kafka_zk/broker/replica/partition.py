"""One partition on this broker: its leadership, and the effects on its log.

Pure state and a log. The partition sets the log's high watermark after followers' fetches (``remote_replicas``), or
after each append if there are no followers. Times: ms on a monotonic clock.

Source: Partition.scala@3.9.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.isr_state import Committed, WrittenIsr, is_current
from kafka_zk.broker.replica.remote_replicas import InSyncRule, RemoteReplicas
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.log.log import Log


class Role(enum.Enum):
    NEW = "new"  # the controller has not decided it yet
    LEADER = "leader"
    FOLLOWER = "follower"
    REFUSED = "refused"  # invalid topic configuration, or the log of another topic
    OFFLINE = "offline"  # its log directory failed; lasts until a restart
    STOPPED = "stopped"  # the controller removed it; final


_SERVABLE = frozenset({Role.NEW, Role.LEADER, Role.FOLLOWER, Role.REFUSED})

TRANSITIONS: Mapping[Role, frozenset[Role]] = {
    Role.NEW: frozenset(),
    Role.LEADER: _SERVABLE,
    Role.FOLLOWER: _SERVABLE,
    Role.REFUSED: _SERVABLE,
    Role.OFFLINE: _SERVABLE | {Role.OFFLINE},
    Role.STOPPED: _SERVABLE,
}
"""New role -> the roles from which it can be entered."""

_LEADER = Role.LEADER
_ANYBODY = InSyncRule(30_000, lambda broker_id: True)


class IllegalRoleChange(Exception):
    """A change of role that is not in TRANSITIONS; nothing was changed."""


class LeaderAndIsrPartitionState(NamedTuple):
    """One partition of a LeaderAndIsr request. Source: LeaderAndIsrRequest.json@3.9."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    partition_epoch: int
    isr: Sequence[int]
    replicas: Sequence[int]
    is_new: bool = False


class Partition:
    """The controller's last decision on a partition, this broker's role, and the local log.

    Attributes:
        log: None before it is opened or if opening it fails; never None for a LEADER.
        topic_id: all zero if the topic has no id.
        leader, leader_epoch, controller_epoch, partition_epoch, isr, replicas: the controller's last decision (-1 or
            empty before the first). AlterPartition also changes ``isr`` and ``partition_epoch``.
        role: changed only by ``change_role``.
        refusal: error for every request in the role REFUSED or OFFLINE.
        remotes: the followers; None if not the LEADER or the only replica.
        terms_ended: number of times that this broker has ceased to lead.
    """

    __slots__ = (
        "_flush_count",
        "_led_epoch",
        "_rule",
        "broker_id",
        "controller_epoch",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "partition_epoch",
        "refusal",
        "remotes",
        "replicas",
        "role",
        "terms_ended",
        "topic_id",
        "tp",
    )

    def __init__(self, broker_id: int, tp: TopicPartition, rule: InSyncRule = _ANYBODY) -> None:
        self.broker_id = broker_id
        self.tp = tp
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
        self.remotes: RemoteReplicas | None = None
        self._rule = rule
        self._led_epoch = -1  # leader epoch of ``remotes``; -1 if this broker does not lead
        self._flush_count = 0  # flushes in progress, while only durable records are committed
        self.terms_ended = 0

    def change_role(self, role: Role, refusal: ErrorCode | None = None) -> None:
        """Enter another role. ``refusal``: the error for clients; only for REFUSED and OFFLINE. Raises:
        IllegalRoleChange."""
        if self.role not in TRANSITIONS[role]:
            raise IllegalRoleChange(f"{self.tp} cannot become {role.value}, it is {self.role.value}")
        assert (refusal is not None) is (role in (Role.REFUSED, Role.OFFLINE))
        self.terms_ended += self.role is _LEADER and role is not _LEADER
        self.role = role
        self.refusal = refusal
        if role is not _LEADER:
            self.remotes = None
            self._led_epoch = -1

    def take_state(self, state: LeaderAndIsrPartitionState) -> None:
        """Adopt the controller's decision. Call ``become`` when the log is open or could not be opened."""
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.partition_epoch = state.partition_epoch
        self.isr = list(state.isr)
        self.replicas = list(state.replicas)

    def become(self, refusal: ErrorCode | None, now_ms: int = 0) -> None:
        """Take the role that the controller decided, or refuse it."""
        if refusal is None:
            self.change_role(Role.LEADER if self.is_leader else Role.FOLLOWER)
        else:
            self.change_role(Role.OFFLINE if refusal is ErrorCode.KAFKA_STORAGE_ERROR else Role.REFUSED, refusal)
        if self.role is _LEADER and self.log is not None:
            self._lead(self.log, now_ms)
        elif self.log is not None:
            self.log.update_high_watermark(self.log.high_watermark)

    def _lead(self, log: Log, now_ms: int) -> None:
        if len(self.replicas) <= 1:
            self.remotes = None
            self._led_epoch = self.leader_epoch
        elif self.leader_epoch != self._led_epoch:
            if self.remotes is None:
                self.remotes = RemoteReplicas(self.broker_id, self._rule)
            self.remotes.begin_epoch(self.replicas, self.isr, log.log_end_offset, now_ms)
            self._led_epoch = self.leader_epoch
            log.update_high_watermark(log.high_watermark)
        self.advance_high_watermark(now_ms)

    @property
    def is_leader(self) -> bool:
        """True if the controller's last decision names this broker, whatever its role."""
        return self.leader == self.broker_id

    def leader_log(self, current_leader_epoch: int = -1) -> Log:
        """The log, if this broker leads in the client's leader epoch (-1: any).

        Raises: ApiError: the refusal, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320).
        """
        if self.role is not _LEADER or (current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch):
            self._check_leads(current_leader_epoch)
        return self.log  # type: ignore[return-value]  # a leader has one

    def readable_log(self, current_leader_epoch: int = -1) -> Log:
        """Like ``leader_log``, but also for a follower, because consumers may read from any replica (KIP-392)."""
        if self.role is not _LEADER or (current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch):
            if self.role is not Role.FOLLOWER or self.log is None:
                self._check_leads(current_leader_epoch)
            self._check_epoch(current_leader_epoch)
        return self.log  # type: ignore[return-value]  # a leader has one

    def _check_leads(self, current_leader_epoch: int) -> None:
        if self.refusal is not None:
            raise ApiError(self.refusal)
        self._check_epoch(current_leader_epoch)
        if self.role is not _LEADER:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _check_epoch(self, current_leader_epoch: int) -> None:
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            older = current_leader_epoch < self.leader_epoch
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH)

    @property
    def min_insync_replicas(self) -> int:
        """``min.insync.replicas``, at most the number of replicas."""
        wanted = 1 if self.log is None else self.log.config.min_insync_replicas
        return min(wanted, max(1, len(self.replicas)))

    def check_enough_replicas(self) -> None:
        """Raise ApiError(NOT_ENOUGH_REPLICAS) for acks=all if the ISR is too small."""
        if len(self.isr) < self.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def has_committed(self, last_offset: int, terms_ended: int) -> bool:
        """True if all in-sync replicas have the record, which completes an acks=all append.

        ``terms_ended``: the partition's value at the append. In a later term, another record may have the offset.
        Raises: ApiError, like ``leader_log``; NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR has become too small.
        """
        log = self.leader_log()
        if terms_ended != self.terms_ended:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if last_offset >= log.high_watermark:
            return False
        members = self.isr if self.remotes is None else self.remotes.state.maximal_isr
        if len(members) < self.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return True

    # -- as the leader of followers -----------------------------------------------------------------------------------

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Advance the high watermark, which never moves back, to the offset that the replicas have reached. Returns
        whether it moved. Below ``min.insync.replicas`` it does not move, so that readers see no under-replicated
        records (KIP-966).
        """
        log = self.log
        if log is None or self.role is not _LEADER:
            return False
        before = log.high_watermark
        if self.remotes is None:
            if not self._flush_count:
                log.follow_log_end()
                return log.high_watermark > before
            mark = log.recovery_point
        elif len(self.isr) < self.min_insync_replicas:
            return False
        else:
            local_end_offset = log.recovery_point if self._flush_count else log.log_end_offset
            mark = self.remotes.high_watermark(local_end_offset, log.log_end_offset, now_ms)
        return mark > before and log.update_high_watermark(mark) > before

    @property
    def low_watermark(self) -> int:
        """The offset before which every live replica has deleted its records. Raises: ApiError, like ``leader_log``."""
        log = self.leader_log()
        return log.log_start_offset if self.remotes is None else self.remotes.low_watermark(log.log_start_offset)

    @property
    def knows_what_is_committed(self) -> bool:
        """False for a new leader until its high watermark reaches the start of its epoch, because the previous leader
        may have shown readers records above that high watermark."""
        remotes, log = self.remotes, self.log
        return remotes is None or log is None or log.high_watermark >= remotes.epoch_start_offset

    def take_written_isr(self, written: WrittenIsr) -> bool:
        """Adopt a written ISR; False if it is outdated or this broker does not lead."""
        if self.remotes is None or not is_current(written, self.leader_epoch, self.partition_epoch):
            return False
        self.isr = list(written.isr)
        self.partition_epoch = written.partition_epoch
        self.remotes.state = Committed(written.isr)
        return True

    # -- as a follower, and while records are made durable ------------------------------------------------------------

    def take_leader_high_watermark(self, offset: int) -> None:
        """As a follower, adopt the leader's high watermark, but at most the end of the local log."""
        if self.log is not None and self.role is Role.FOLLOWER:
            self.log.update_high_watermark(offset)

    def flush_begins(self, offset: int) -> None:
        """Record that an append requires a flush. From ``offset`` on, records are committed when durable."""
        self._flush_count += 1
        if self.log is not None:
            self.log.update_high_watermark(min(offset, self.log.high_watermark))

    def flush_ended(self, now_ms: int = 0) -> None:
        """Record that a flush has ended, so that records before the log's recovery point are durable."""
        self._flush_count -= 1
        self.advance_high_watermark(now_ms)
