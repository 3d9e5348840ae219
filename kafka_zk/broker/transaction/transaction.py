"""One transactional id: a pure state machine.

Its methods take events (with the time if needed) and return effects. There is one change at a time: until ``appended``
reports it, other requests get CONCURRENT_TRANSACTIONS. ``states`` lists the legal transitions.

Source: TransactionCoordinator.scala, TransactionMetadata.scala@3.9; KIP-98, KIP-360 (producers bump epochs), KIP-447,
KIP-890 part 1 (verification).
"""

from collections.abc import Collection

from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.transaction.metadata import LAST_EPOCH, NO_PARTITIONS, NO_TIMESTAMP, TransactionMetadata
from kafka_zk.broker.transaction.requests import (
    NO_PRODUCER_EPOCH,
    Answer,
    Append,
    Effect,
    ProducerIdAndEpoch,
    Result,
    SendMarkers,
    WriteTombstone,
)
from kafka_zk.broker.transaction.states import TRANSITIONS, Event, TransactionState
from kafka_zk.protocol.errors import ErrorCode

_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_NONE, _CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
_ADD_PARTITIONS, _MARKERS_WRITTEN = Event.ADD_PARTITIONS, Event.MARKERS_WRITTEN
_COMMIT, _ABORT = Event.COMMIT, Event.ABORT
_RESULTS = {code: Result(code) for code in ErrorCode}


class Transaction:
    """One transactional id.

    Attributes:
        metadata: the last stored state, but a fence bumps the epoch immediately, and partitions are removed when their
            markers are written.
        pending: the state to store next; None without a change in progress. While markers are written: the final state,
            not yet appended.
        waiting: the request to answer when ``pending`` is stored, if any.
        counted_bytes: this id's part of all ids' memory.
        peer: the creating client's address; "" if loaded.
        _is_fence: ``pending`` aborts the transaction in a bumped epoch.
        _fence_failed: an append with a bumped epoch failed, and the log may contain it, so another fence does not bump
            again.
    """

    __slots__ = (
        "_fence_failed", "_is_fence", "counted_bytes", "metadata", "peer", "pending", "transactional_id", "waiting",
    )  # fmt: skip

    def __init__(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        self.transactional_id = transactional_id
        self.metadata = metadata
        self.pending: TransactionMetadata | None = None
        self.waiting: Reply | None = None
        self.counted_bytes = 0
        self.peer = ""
        self._is_fence = False
        self._fence_failed = False

    @classmethod
    def new(cls, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> "Transaction":
        return cls(
            transactional_id,
            TransactionMetadata(producer_id, NO_PRODUCER_EPOCH, timeout_ms, _EMPTY, last_update_ms=now_ms),
        )

    @property
    def is_blank(self) -> bool:
        """True if nothing was stored for this id."""
        return self.pending is None and self.metadata.producer_epoch == NO_PRODUCER_EPOCH

    @property
    def is_unused(self) -> bool:
        """True if the id's first producer never began a transaction, so that nothing depends on the id's epoch."""
        metadata = self.metadata
        return (
            self.pending is None
            and metadata.state is _EMPTY
            and metadata.producer_epoch == 0
            and metadata.previous_producer_id in (-1, metadata.producer_id)
            and not self._fence_failed
        )

    @property
    def needs_producer_id(self) -> bool:
        """True if the next InitProducerId may need a new producer id."""
        return self.metadata.is_epoch_exhausted

    def complete_prepared(self, now_ms: int) -> list[Effect]:
        """Continue the end of a transaction that was ending when it was stored."""
        return self._complete(now_ms) if self.metadata.state in _PREPARED else []

    # Requests of producers.

    def init_producer_id(
        self,
        reply: Reply | None,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        new_producer_id: int | None,
        now_ms: int,
    ) -> list[Effect]:
        """``expected``: the producer's identity if it continues after an error (KIP-360).

        ``new_producer_id``: an id that no producer has; required if the epochs are exhausted.
        """
        metadata = self.metadata
        if self.pending is not None:
            return _answer(reply, _CONCURRENT)
        if expected is not None and not self._continues(expected):
            return _answer(reply, ErrorCode.PRODUCER_FENCED)
        target = TRANSITIONS[Event.INIT_PRODUCER_ID][metadata.state]
        if isinstance(target, ErrorCode):
            return _answer(reply, target)
        if target is TransactionState.PREPARE_EPOCH_FENCE:
            return self._fence(reply, now_ms)
        if metadata.is_epoch_exhausted and (expected is None or expected.producer_epoch == metadata.producer_epoch):
            if new_producer_id is None:
                return _answer(reply, _CONCURRENT)  # the epochs became exhausted while a producer id was awaited
            last_epoch = NO_PRODUCER_EPOCH if expected is None else metadata.producer_epoch
            producer = ProducerIdAndEpoch(new_producer_id, 0)
        else:
            bumped = self._bumped(expected)
            if bumped is None:
                return _answer(reply, ErrorCode.PRODUCER_FENCED)
            producer, last_epoch = ProducerIdAndEpoch(metadata.producer_id, bumped[0]), bumped[1]
        return self._prepare(
            reply,
            TransactionMetadata(
                *producer, timeout_ms, target, NO_PARTITIONS, NO_TIMESTAMP, now_ms, last_epoch, metadata.producer_id
            ),
        )

    def _continues(self, expected: ProducerIdAndEpoch) -> bool:
        """True if this is the last producer of the id, or one that did not receive its new producer id."""
        metadata = self.metadata
        if metadata.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == metadata.producer_id:
            return True
        return expected.producer_id == metadata.previous_producer_id and expected.producer_epoch >= LAST_EPOCH

    def _bumped(self, expected: ProducerIdAndEpoch | None) -> tuple[int, int] | None:
        """The next epoch and the one before it; None if the producer is fenced."""
        epoch, last_epoch = self.metadata.producer_epoch, self.metadata.last_producer_epoch
        if expected is not None and expected.producer_epoch == last_epoch and epoch != NO_PRODUCER_EPOCH:
            return epoch, last_epoch  # a retry: the response was lost
        if self.metadata.is_epoch_exhausted:
            return None
        if expected is None:
            return epoch + 1, NO_PRODUCER_EPOCH
        if epoch in (NO_PRODUCER_EPOCH, expected.producer_epoch):
            return epoch + 1, epoch
        return None

    def add_partitions(
        self, reply: Reply | None, producer: ProducerIdAndEpoch, tps: frozenset[TopicPartition], now_ms: int
    ) -> list[Effect]:
        """Add partitions to the open transaction, or to a new one."""
        metadata = self.metadata
        refusal = self._refusal_to_change(producer)
        if refusal is not None:
            return _answer(reply, refusal)
        target = TRANSITIONS[_ADD_PARTITIONS][metadata.state]
        if isinstance(target, ErrorCode):
            return _answer(reply, target)
        if metadata.state is not _ONGOING:
            return self._prepare(reply, metadata.changed(target, tps, now_ms, now_ms))
        if tps <= metadata.tps:
            return _answer(reply, _NONE)
        return self._prepare(reply, metadata.changed(target, metadata.tps | tps, metadata.start_ms, now_ms))

    def verify(self, producer: ProducerIdAndEpoch, tps: Collection[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Errors of partitions outside the producer's open transaction (KIP-890)."""
        refusal = self._refusal(producer)
        if refusal is None and self.metadata.state in _PREPARED:
            refusal = _CONCURRENT
        if refusal is not None:
            return dict.fromkeys(tps, refusal)
        added = self.metadata.tps
        if added.issuperset(tps):
            return {}
        return {tp: ErrorCode.TRANSACTION_ABORTABLE for tp in tps if tp not in added}

    def end(self, reply: Reply | None, producer: ProducerIdAndEpoch, now_ms: int, *, commit: bool) -> list[Effect]:
        """Commit or abort the transaction.

        If the transaction has already ended this way, the state is stored again before the response, unlike in Kafka. A
        broker that has lost leadership without noticing it may still know only the previous transaction.
        """
        metadata = self.metadata
        refusal = self._refusal_to_change(producer)
        if refusal is not None:
            return _answer(reply, refusal)
        target = TRANSITIONS[_COMMIT if commit else _ABORT][metadata.state]
        if target is _NONE:
            return self._prepare(reply, metadata)
        if isinstance(target, ErrorCode):
            return _answer(reply, target)
        return self._prepare(reply, metadata.changed(target, metadata.tps, metadata.start_ms, now_ms))

    def _refusal_to_change(self, producer: ProducerIdAndEpoch) -> ErrorCode | None:
        refusal = self._refusal(producer)
        return _CONCURRENT if refusal is None and self.pending is not None else refusal

    def _refusal(self, producer: ProducerIdAndEpoch) -> ErrorCode | None:
        if producer.producer_id != self.metadata.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer.producer_epoch != self.metadata.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return None

    # Time.

    def has_timed_out(self, now_ms: int) -> bool:
        metadata = self.metadata
        is_open = self.pending is None and metadata.state in TRANSITIONS[Event.TIMED_OUT]
        return is_open and metadata.start_ms + metadata.timeout_ms < now_ms

    def time_out(self, now_ms: int) -> list[Effect]:
        """Abort the transaction and fence its producer if it has timed out."""
        return self._fence(None, now_ms) if self.has_timed_out(now_ms) else []

    def has_expired(self, now_ms: int, expiration_ms: int) -> bool:
        """True if the id was not used for ``expiration_ms``."""
        metadata = self.metadata
        is_idle = self.pending is None and metadata.state in TRANSITIONS[Event.EXPIRED]
        return is_idle and metadata.last_update_ms <= now_ms - expiration_ms

    def expire(self, now_ms: int, expiration_ms: int) -> list[Effect]:
        return self.remove() if self.has_expired(now_ms, expiration_ms) else []

    def remove(self) -> list[Effect]:
        """Remove the id, which is unused or expired."""
        self.pending = self.metadata._replace(state=TransactionState.DEAD, tps=NO_PARTITIONS)
        return [WriteTombstone()]

    def removal_failed(self) -> None:
        """Keep the id, because the tombstone was not written."""
        self.pending = None

    # Results of effects.

    def appended(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        """Handle the result of the append of ``pending``. ``error``: NONE, or the code that the client receives.

        An append that completes a transaction is repeated until it succeeds.
        """
        pending = self.pending
        assert pending is not None, "nothing was to be appended"
        if self.metadata.state in _PREPARED:
            if error is not _NONE:
                return [Append(pending, is_retry=True)]
            self.pending, self.metadata, self._fence_failed = None, pending, False
            return []
        reply, is_fence = self.waiting, self._is_fence
        self.pending, self.waiting, self._is_fence = None, None, False
        if error is not _NONE:
            self._fence_failed = self._fence_failed or is_fence
            return _answer(reply, error)
        self.metadata = pending
        if pending.state in _PREPARED:
            answer = _answer(reply, _CONCURRENT if is_fence else _NONE)
            return answer + self._complete(now_ms)
        if pending.state is _EMPTY:
            return [Answer(reply, Result(_NONE, new_tuple(ProducerIdAndEpoch, pending[:2])))]
        return _answer(reply, _NONE)

    def markers_written(self, tps: Collection[TopicPartition], now_ms: int) -> list[Effect]:
        """These partitions have their marker or are deleted; the last ones complete the transaction."""
        metadata = self.metadata
        if metadata.state not in _PREPARED or not metadata.tps:
            return []
        left = metadata.tps.difference(tps)
        self.metadata = metadata.changed(metadata.state, left, metadata.start_ms, metadata.last_update_ms)
        return [] if left else self._completed()

    def _complete(self, now_ms: int) -> list[Effect]:
        """The decision is in the log: send the markers. Until they are written, nothing else can change."""
        metadata = self.metadata
        target = TRANSITIONS[_MARKERS_WRITTEN][metadata.state]
        assert isinstance(target, TransactionState)
        self.pending = metadata.changed(target, NO_PARTITIONS, metadata.start_ms, now_ms)
        if not metadata.tps:
            return self._completed()
        producer = new_tuple(ProducerIdAndEpoch, metadata[:2])
        return [new_tuple(SendMarkers, (producer, metadata.state is _PREPARED[0], metadata.tps))]

    def _completed(self) -> list[Effect]:
        assert self.pending is not None, "the end was prepared"
        return [new_tuple(Append, (self.pending, False))]

    def _fence(self, reply: Reply | None, now_ms: int) -> list[Effect]:
        """Abort the open transaction in an epoch that no producer has. The old epoch is invalid immediately, because an
        append reported as failed may still succeed."""
        fencing = TRANSITIONS[Event.INIT_PRODUCER_ID][self.metadata.state]
        assert fencing is TransactionState.PREPARE_EPOCH_FENCE
        if not self._fence_failed:
            self.metadata = self.metadata._replace(
                producer_epoch=min(self.metadata.producer_epoch, LAST_EPOCH) + 1,
                last_producer_epoch=NO_PRODUCER_EPOCH,
            )
        target = TRANSITIONS[Event.FENCED][fencing]
        assert isinstance(target, TransactionState)
        self._is_fence = True
        return self._prepare(reply, self.metadata._replace(state=target, last_update_ms=now_ms))

    def _prepare(self, reply: Reply | None, target: TransactionMetadata) -> list[Effect]:
        assert self.pending is None, f"{self.pending} is under way"
        self.pending, self.waiting = target, reply
        return [new_tuple(Append, (target, False))]


def _answer(reply: Reply | None, error: ErrorCode) -> list[Effect]:
    return [new_tuple(Answer, (reply, _RESULTS[error]))]
