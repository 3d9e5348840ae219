"""The fetch state of a leader's partitions, and the effects of the leader's responses on the logs.

A partition is TRUNCATING until its log is a prefix of the leader's, then FETCHING. From Fetch version 12 on, the leader
returns the point where the logs diverge (KIP-595). In older versions, the follower asks with OffsetForLeaderEpoch
(KIP-101, KIP-279). A log without leader epochs is truncated to its high watermark. A log that ends within one of the
leader's batches is truncated to that batch's start.

An error delays a partition. If the leader rejects a partition's leader epoch as old, the partition is dropped until the
next LeaderAndIsr. If the leader has the next records only in remote storage, the partition waits until its log has been
restarted after them; if this broker has no remote storage, the partition is dropped. While the quota is exceeded,
throttled partitions that lag are not fetched.

Pure: reads only offsets and epochs of logs. The driver (``replica_fetcher``) executes the effects. Source:
AbstractFetcherThread.scala@3.9.
"""

import enum
import math
from struct import Struct
from typing import NamedTuple, Protocol

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.fetch_session import PartitionKey, TopicKey
from kafka_zk.broker.replica.fetch_session_handler import FetchSessionHandler
from kafka_zk.broker.replica.fetcher_effects import (
    Append,
    AskOffsets,
    AskRemoteState,
    Effect,
    EpochQuestion,
    FetchRefused,
    StartAnew,
    Truncate,
)
from kafka_zk.broker.replica.replication_quota import ReplicationQuota
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import EpochEndOffset, FetchedPartition
from kafka_zk.protocol.fetch_request import TOPIC_IDS_SINCE, FetchPartition
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.record_batch import check_crc, iter_batches

DIVERGING_EPOCH_SINCE = 12
"""First version of Fetch that returns where to truncate."""

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
ZERO_ID = bytes(16)

_BASE_OFFSET = Struct(">q")


class EpochTable(Protocol):
    @property
    def latest_epoch(self) -> int:
        """The largest epoch; -1 if the table is empty."""


class FollowerLog(Protocol):
    """The attributes of ``storage.log.log.Log`` that this module reads."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def leader_epochs(self) -> EpochTable: ...

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(largest known epoch <= ``leader_epoch``, its end offset); (-1, -1) if no such epoch is known."""


FIRST_WAIT_S = 0.02
"""Delay after the first error in ``_NOT_HEARD_YET``; it doubles up to the backoff.

The controller usually notifies the leader a moment later. Until then, appends with acks=all wait.
"""
_MOST_DOUBLINGS = 20  # 20 ms * 2^20: about 6 hours

_NOT_HEARD_YET = frozenset(
    {
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
_UNTIL_NEXT_EPOCH = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
"""After these errors a partition is dropped until the next LeaderAndIsr, because a retry would fail again."""


class ReplicaState(enum.Enum):
    TRUNCATING = "truncating"
    FETCHING = "fetching"


class PartitionFetchState(NamedTuple):
    """The fetch position of one partition.

    Attributes:
        topic_id: 16 bytes; ZERO_ID if the topic has no id.
        leader_epoch: constant until ``add`` is called with another epoch.
        fetch_offset: the log end offset; while TRUNCATING, the target of a truncation without a question to the leader.
        last_fetched_epoch: the log's latest leader epoch; -1 if the log has no epochs.
        lag: records behind the leader's high watermark; -1 before the first response.
        delayed_until_s: end of the delay after an error, on the timers' clock.
        waited: errors in ``_NOT_HEARD_YET`` since the last append, at most ``_MOST_DOUBLINGS``.
    """

    topic_id: bytes
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    state: ReplicaState
    lag: int = -1
    delayed_until_s: float | None = None
    waited: int = 0


_LAG = PartitionFetchState._fields.index("lag")


class FetcherState:
    """The partitions that are fetched from one leader.

    Args:
        fetch_version: the Fetch version of the inter-broker protocol.
        asks_for_epochs: the leader supports OffsetForLeaderEpoch.
        max_bytes: per partition and response.
        backoff_s: delay of a partition after an error.
        quota: shared by all fetchers.
    """

    def __init__(
        self,
        fetch_version: int,
        *,
        asks_for_epochs: bool,
        max_bytes: int,
        backoff_s: float,
        quota: ReplicationQuota | None = None,
        has_remote_storage: bool = False,
    ) -> None:
        self.partitions: dict[TopicPartition, PartitionFetchState] = {}
        self.session = FetchSessionHandler()
        self._fetch_version = fetch_version
        self._asks_for_epochs = asks_for_epochs
        self._max_bytes = max_bytes
        self._backoff_s = backoff_s
        self._has_remote_storage = has_remote_storage
        self._quota = quota or ReplicationQuota(QuotaWindow())
        self._delayed: set[TopicPartition] = set()  # subset of ``partitions``
        self._held_back: set[TopicPartition] = set()  # excluded by the quota
        self._truncating: set[TopicPartition] = set()  # subset of ``partitions``
        self._by_key: dict[PartitionKey, TopicPartition] = {}
        self._without_id = 0  # partitions whose topic has no id
        self._uses_ids = fetch_version >= TOPIC_IDS_SINCE

    # -- which partitions ---------------------------------------------------------------------------------------------

    def add(self, tp: TopicPartition, topic_id: bytes, leader_epoch: int, log: FollowerLog) -> None:
        """Fetch a partition in this leader epoch, unless it is already fetched in that epoch."""
        known = self.partitions.get(tp)
        if known is not None and known.leader_epoch == leader_epoch and known.topic_id == topic_id:
            return
        self.remove(tp)
        epoch = log.leader_epochs.latest_epoch
        is_ready = self._truncates_on_fetch and epoch >= 0
        offset = log.log_end_offset if is_ready else log.high_watermark
        state = ReplicaState.FETCHING if is_ready else ReplicaState.TRUNCATING
        self.partitions[tp] = PartitionFetchState(topic_id, leader_epoch, offset, epoch, log.log_start_offset, state)
        self._without_id += topic_id == ZERO_ID
        self._choose_keys()
        self._want(tp)

    def remove(self, tp: TopicPartition) -> None:
        known = self.partitions.pop(tp, None)
        if known is not None:
            key = self._key(tp, known)
            self.session.forget(key, tp.partition)
            self._by_key.pop((key, tp.partition), None)
            self._delayed.discard(tp)
            self._held_back.discard(tp)
            self._truncating.discard(tp)
            self._without_id -= known.topic_id == ZERO_ID
            self._choose_keys()

    @property
    def version(self) -> int:
        """Version of the next Fetch, below TOPIC_IDS_SINCE while a topic has no id."""
        return self._fetch_version if self._uses_ids else min(self._fetch_version, TOPIC_IDS_SINCE - 1)

    @property
    def max_lag(self) -> int:
        """Records that the most lagging partition lacks; 0 without partitions."""
        return max((known.lag for known in self.partitions.values()), default=0)

    def tp(self, topic: str | None, topic_id: bytes | None, partition: int) -> TopicPartition | None:
        """The partition that a response names; None if it is not fetched."""
        return self._by_key.get((topic or "" if topic_id is None else topic_id, partition))

    # -- delays -------------------------------------------------------------------------------------------------------

    def delay(self, tp: TopicPartition, now_s: float) -> None:
        self._delay(tp, now_s, self._backoff_s)

    def _delay(self, tp: TopicPartition, now_s: float, seconds: float) -> None:
        known = self.partitions.get(tp)
        if known is not None:
            self.partitions[tp] = known._replace(delayed_until_s=now_s + seconds)
            self._delayed.add(tp)
            self.session.forget(self._key(tp, known), tp.partition)

    def wake(self, now_s: float) -> float | None:
        """End delays that are over, and update which partitions the quota excludes.

        Returns when to call this again, on the timers' clock; None if no partition waits.
        """
        next_s: float | None = None
        for tp in sorted(self._delayed):
            known = self.partitions[tp]
            until_s = known.delayed_until_s
            if until_s is None or until_s <= now_s:
                self._delayed.discard(tp)
                self.partitions[tp] = known._replace(delayed_until_s=None)
                self._want(tp)
            elif next_s is None or until_s < next_s:
                next_s = until_s
        if self._held_back or self._quota.throttled:
            self._hold_back(now_s)
        if self._held_back:
            look_again_s = now_s + self._backoff_s
            next_s = look_again_s if next_s is None else min(next_s, look_again_s)
        return next_s

    def _hold_back(self, now_s: float) -> None:
        """Exclude throttled partitions that lag, or may lag, while the quota is exceeded."""
        held: set[TopicPartition] = set()
        if self._quota.is_exceeded(int(now_s * 1000)):
            held.update(tp for tp in self._quota.throttled & self.partitions.keys() if self.partitions[tp].lag != 0)
        released, self._held_back = self._held_back - held, held
        for tp in sorted(released | held):
            self._want(tp)

    @property
    def has_work(self) -> bool:
        return bool(self.session.wanted or self._truncating - self._delayed)

    # -- truncation before the first fetch ----------------------------------------------------------------------------

    def truncations(self) -> tuple[list[EpochQuestion], list[Truncate]]:
        """Questions to the leader about TRUNCATING partitions, and truncations that need no question."""
        questions, here = [], []
        for tp in sorted(self._truncating - self._delayed):  # in the same order in every process
            known = self.partitions[tp]
            if known.last_fetched_epoch >= 0 and self._asks_for_epochs:
                questions.append(EpochQuestion(tp, known.leader_epoch, known.last_fetched_epoch))
            else:
                here.append(Truncate(tp, known.fetch_offset))
        return questions, here

    def epoch_answered(
        self, question: EpochQuestion, code: int, end: EpochEndOffset, log: FollowerLog, now_s: float
    ) -> Truncate | FetchRefused | None:
        known = self.partitions.get(question.tp)
        if known is None or known.leader_epoch != question.leader_epoch or known.state is ReplicaState.FETCHING:
            return None
        if code:
            return self._refused(question.tp, code, now_s)
        return self._truncation(question.tp, known, end, log)

    # -- responses ----------------------------------------------------------------------------------------------------

    def answered(self, tp: TopicPartition, fetched: FetchedPartition, log: FollowerLog, now_s: float) -> Effect | None:
        """The effect of one partition in a response; None if its position or epoch has changed since the request."""
        known = self.partitions.get(tp)
        if known is None or known.state is ReplicaState.TRUNCATING or tp in self._delayed:
            return None
        asked = self.session.asked(self._key(tp, known), tp.partition)
        if (
            asked is None
            or asked.current_leader_epoch != known.leader_epoch
            or asked.fetch_offset != known.fetch_offset
        ):
            return None
        if fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return AskOffsets(tp, known.leader_epoch)
        if fetched.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE and self._has_remote_storage:
            self._delay(tp, now_s, math.inf)  # until ``begun_from_remote`` or ``remote_state_refused``
            return AskRemoteState(tp, known.leader_epoch)
        if fetched.error_code:
            return self._refused(tp, fetched.error_code, now_s)
        if log.log_end_offset != known.fetch_offset:  # the log was truncated or restarted meanwhile
            self._continue_at_end(tp, known, log, known.lag, known.waited)
            return None
        diverging = fetched.diverging_epoch
        if diverging is not None and diverging.end_offset != UNDEFINED_OFFSET:
            return self._truncation(tp, known, diverging, log)
        records = fetched.records if isinstance(fetched.records, memoryview) else memoryview(b"")
        parts_at = _parts_at(records, log)
        if parts_at is not None:
            return Truncate(tp, parts_at, has_parted=True)
        if self._quota.is_throttled(tp):
            self._quota.record(len(records), int(now_s * 1000))
        return Append(tp, records, fetched.high_watermark, fetched.log_start_offset, _restart_at(records, log))

    def out_of_range(
        self, asked: AskOffsets, leader_start: int, leader_end: int, log: FollowerLog, now_s: float
    ) -> Truncate | StartAnew | FetchRefused | None:
        """Handle a leader whose log has these bounds; None if the response is outdated.

        If the local log ends after the leader's, it is truncated, because the leader was elected without those records.
        If it ends before the leader's start, it is restarted there. Otherwise the partition is fetched again later,
        because the leader's log has changed, or does not contain the follower's last epoch.
        """
        known = self.partitions.get(asked.tp)
        if known is None or known.leader_epoch != asked.leader_epoch:
            return None
        if leader_end < log.log_end_offset:
            return Truncate(asked.tp, leader_end)
        if leader_start > log.log_end_offset:
            return StartAnew(asked.tp, leader_start)
        return self._refused(asked.tp, ErrorCode.OFFSET_OUT_OF_RANGE, now_s)

    def is_asked(self, asked: AskRemoteState) -> bool:
        """False if the partition's leader epoch has changed since, or if it is no longer fetched."""
        known = self.partitions.get(asked.tp)
        return known is not None and known.leader_epoch == asked.leader_epoch and known.delayed_until_s == math.inf

    def begun_from_remote(self, asked: AskRemoteState, log: FollowerLog) -> None:
        """Record that the log now begins after the records in remote storage."""
        known = self.partitions[asked.tp]
        self._delayed.discard(asked.tp)
        self._continue_at_end(asked.tp, known._replace(delayed_until_s=None), log, known.lag, 0)

    def remote_state_refused(self, asked: AskRemoteState, now_s: float) -> None:
        """Record that the remote state is unavailable; the next request asks for it again after a delay."""
        if self.is_asked(asked):
            self.delay(asked.tp, now_s)

    def offsets_refused(self, asked: AskOffsets, code: int, now_s: float) -> FetchRefused | None:
        known = self.partitions.get(asked.tp)
        if known is None or known.leader_epoch != asked.leader_epoch:
            return None
        return self._refused(asked.tp, code, now_s)

    def _refused(self, tp: TopicPartition, code: int, now_s: float) -> FetchRefused:
        if code in _UNTIL_NEXT_EPOCH:
            self.remove(tp)
            return FetchRefused(tp, code, True)
        known = self.partitions.get(tp)
        if code in _NOT_HEARD_YET and known is not None:
            self.partitions[tp] = known._replace(waited=min(known.waited + 1, _MOST_DOUBLINGS))
            self._delay(tp, now_s, min(self._backoff_s, FIRST_WAIT_S * 2**known.waited))
        else:
            self.delay(tp, now_s)
        return FetchRefused(tp, code, False)

    def _truncation(
        self, tp: TopicPartition, known: PartitionFetchState, end: EpochEndOffset, log: FollowerLog
    ) -> Truncate:
        """Where the logs diverge. ``end``: the end of the leader's largest epoch that is not above the local epoch."""
        if end.end_offset == UNDEFINED_OFFSET:
            return Truncate(tp, known.fetch_offset)  # the leader knows no epoch of the local log
        log_end = log.log_end_offset
        if end.epoch == UNDEFINED_EPOCH:
            return Truncate(tp, min(end.end_offset, log_end))
        our_epoch, our_end = log.end_offset_for_epoch(end.epoch)
        if our_end == UNDEFINED_OFFSET:
            return Truncate(tp, min(end.end_offset, log_end))
        if our_epoch != end.epoch:  # the local log lacks that epoch: keep only earlier epochs
            return Truncate(tp, min(our_end, log_end), is_complete=False)
        return Truncate(tp, min(our_end, end.end_offset, log_end))

    # -- results of the effects ----------------------------------------------------------------------------------------

    def appended(self, effect: Append, log: FollowerLog) -> None:
        """Record an append. The log has adopted the leader's high watermark and start."""
        known = self.partitions.get(effect.tp)
        if known is not None:
            lag = max(0, effect.high_watermark - log.log_end_offset)
            self._continue_at_end(effect.tp, known, log, lag, 0)

    def truncated(self, effect: Truncate | StartAnew, log: FollowerLog) -> None:
        known = self.partitions.get(effect.tp)
        if known is None:
            return
        is_complete = isinstance(effect, StartAnew) or effect.is_complete
        if is_complete or self._truncates_on_fetch:
            known = known._replace(state=ReplicaState.FETCHING)
        self._continue_at_end(effect.tp, known, log, known.lag, known.waited)

    def _continue_at_end(
        self, tp: TopicPartition, known: PartitionFetchState, log: FollowerLog, lag: int, waited: int
    ) -> None:
        before = self.partitions[tp]
        after = self.partitions[tp] = PartitionFetchState(
            known.topic_id,
            known.leader_epoch,
            log.log_end_offset,
            log.leader_epochs.latest_epoch,
            log.log_start_offset,
            known.state,
            lag,
            known.delayed_until_s,
            waited,
        )
        if after[:_LAG] != before[:_LAG] or after[_LAG + 1 :] != before[_LAG + 1 :]:  # the lag is not part of a request
            self._want(tp)

    # -- requests -----------------------------------------------------------------------------------------------------

    @property
    def _truncates_on_fetch(self) -> bool:
        return self._fetch_version >= DIVERGING_EPOCH_SINCE

    def _want(self, tp: TopicPartition) -> None:
        known = self.partitions[tp]
        if known.state is ReplicaState.TRUNCATING:
            self._truncating.add(tp)
            self.session.forget(self._key(tp, known), tp.partition)
            return
        self._truncating.discard(tp)
        if tp in self._held_back:
            self.session.forget(self._key(tp, known), tp.partition)
        elif tp not in self._delayed:
            key = self._key(tp, known)
            self._by_key[key, tp.partition] = tp
            self.session.want(
                key,
                FetchPartition(
                    tp.partition,
                    known.fetch_offset,
                    self._max_bytes,
                    known.leader_epoch,
                    known.last_fetched_epoch,
                    known.log_start_offset,
                ),
            )

    def _key(self, tp: TopicPartition, known: PartitionFetchState) -> TopicKey:
        return known.topic_id if self._uses_ids else tp.topic

    def _choose_keys(self) -> None:
        """Use topic ids if every topic has one: a request and its session use either names or ids."""
        if self._fetch_version < TOPIC_IDS_SINCE:
            return
        uses_ids = not self._without_id
        if uses_ids is not self._uses_ids:
            self._uses_ids = uses_ids
            self._by_key.clear()
            self.session.restart()
            for tp in self.partitions:
                self._want(tp)


def _parts_at(records: memoryview, log: FollowerLog) -> int | None:
    """The start of the leader's first batch if the local log ends within it, in the same epoch; otherwise None.

    The leader has then lost records and written others (docs/decisions/0015). Kafka's follower stops fetching such a
    partition (``markPartitionFailed``). The CRC does not cover the base offset, which may therefore be damaged. So the
    batch counts only if it passes its CRC check and has the local log's latest epoch.
    """
    end = log.log_end_offset
    if len(records) < _BASE_OFFSET.size or log.log_start_offset == end or not 0 <= _base_offset(records) < end:
        return None
    try:
        _, header = next(iter_batches(records))
        check_crc(records, 0, header)
    except (StopIteration, CorruptRecord):  # the append reports it
        return None
    is_one_epoch = header.partition_leader_epoch == log.leader_epochs.latest_epoch
    return header.base_offset if is_one_epoch and header.next_offset > end else None


def _restart_at(records: memoryview, log: FollowerLog) -> int | None:
    """The start offset that an empty log needs for the leader's first batch, which may begin before the leader's log
    start offset. None if the log need not be moved."""
    if len(records) < _BASE_OFFSET.size or log.log_start_offset != log.log_end_offset:
        return None
    base_offset = _base_offset(records)
    return base_offset if base_offset < log.log_end_offset else None


def _base_offset(records: memoryview) -> int:
    return int(_BASE_OFFSET.unpack_from(records)[0])
