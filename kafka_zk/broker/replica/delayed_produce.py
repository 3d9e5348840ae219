"""Produce requests with acks=all that wait for the high watermark.

A request waits until each of its batches is decided, that is, replicated or failed. A batch is examined when its
partition changes. At the timeout, undecided batches fail. Source: DelayedProduce.scala@3.9.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kafka_zk.base.types import LogAppendInfo, TopicPartition
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.replica.purgatory import Wait
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.files.errors import StorageError

APPEND_ERRORS = (ApiError, StorageError, OSError)
AppendResult: TypeAlias = LogAppendInfo | ApiError | StorageError | OSError
"""A batch's position in the log, or why it is not acknowledged."""

_MOST_PASSED = 100
"""If a waiting request has more partitions than this, its connection does not begin the next request."""

_WAIT_BYTES = 4000
_PARTITION_BYTES = 1000


class Unreplicated(NamedTuple):
    """A batch that is in the leader's log. ``terms_ended``: the value of ``Partition.terms_ended`` at the append."""

    partition: Partition
    info: LogAppendInfo
    terms_ended: int


class DelayedProduce:
    """``results``: the result of each batch, in the order of ``tps``; ``Unreplicated`` while undecided."""

    __slots__ = ("_undecided", "results", "tps")

    def __init__(self, tps: Sequence[TopicPartition], results: list[AppendResult | Unreplicated]) -> None:
        self.tps = tps
        self.results = results
        self._undecided: dict[TopicPartition, list[int]] = {}
        for place, result in enumerate(results):
            if isinstance(result, Unreplicated):
                self._undecided.setdefault(tps[place], []).append(place)
        for tp in list(self._undecided):
            self.decide(tp)

    @property
    def is_decided(self) -> bool:
        return not self._undecided

    @property
    def wait(self) -> type[Wait]:
        """The class of the wait, by which the connection decides whether to begin the next request."""
        return PassedWait if len(self.tps) <= _MOST_PASSED else ReplicationWait

    def decide(self, tp: TopicPartition) -> None:
        """Decide the batches of a changed partition."""
        undecided = []
        for place in self._undecided.pop(tp, ()):
            result = self._replicated(self.results[place])
            if result is None:
                undecided.append(place)
            else:
                self.results[place] = result
        if undecided:
            self._undecided[tp] = undecided

    @staticmethod
    def _replicated(result: AppendResult | Unreplicated) -> AppendResult | None:
        assert isinstance(result, Unreplicated)
        try:
            committed = result.partition.has_committed(result.info.last_offset, result.terms_ended)
            return result.info if committed else None
        except ApiError as error:
            return error.with_traceback(None)

    def time_out(self) -> None:
        for places in self._undecided.values():
            for place in places:
                self.results[place] = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        self._undecided.clear()

    def outcomes(self, partitions: Mapping[TopicPartition, Partition]) -> list[AppendResult]:
        """The outcome of each batch, once all are decided.

        If an append of the request has taken a log directory offline, the batches appended there earlier fail too,
        because they may be lost.
        """
        outcomes: list[AppendResult] = []
        for tp, result in zip(self.tps, self.results, strict=True):
            assert not isinstance(result, Unreplicated), "not decided"
            partition = partitions.get(tp)
            if not isinstance(result, Exception) and partition is not None and partition.refusal is not None:
                result = ApiError(partition.refusal)
            outcomes.append(result)
        return outcomes


class ReplicationWait(Wait):
    """The wait of a Produce request."""

    def expire_early(self) -> None:
        """Do nothing, because only the followers decide."""


class PassedWait(ReplicationWait):
    """A wait that no longer needs the request's records, so the connection can begin the next request
    (``in_flight``)."""

    @property
    def kept_bytes(self) -> int:
        """Approximate memory that the request still uses."""
        return _WAIT_BYTES + _PARTITION_BYTES * len(self.keys)
