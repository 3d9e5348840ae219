"""Sends transaction markers to partitions' leaders until all are written.

At most one request per broker is in progress. The next request combines the markers that arrive before the response to
the current one, or in one reactor turn. After a failure or a change of leader, markers are sent to the current leader
after a pause.

A deleted partition needs no marker. A partition missing in the metadata counts as deleted once the controller has sent
all metadata; until then, only if its topic is not in ZooKeeper. If a leader knows a later producer or coordinator
epoch, another coordinator ends the transaction, and markers are not sent again.

Source: TransactionMarkerChannelManager.scala, TransactionMarkerRequestCompletionHandler.scala@3.9.
"""

import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from kafka_zk.base.clock import AtEndOfTurn, Timers, at_once
from kafka_zk.base.turns import in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.metadata.cache import MetadataCache, PartitionInfo
from kafka_zk.broker.transaction.partitions import CoordinatedPartition
from kafka_zk.broker.transaction.requests import SendMarkers
from kafka_zk.broker.transaction.transaction import Transaction
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import RegistryError

_log = Logger()

RETRY_S = 0.05
SETTLED_AFTER_S = 10
"""Seconds after registration until the metadata counts as complete, because it may come in several requests."""
LOOK_UP_PAUSE_S = 0.1
"""Pause between lookups in ZooKeeper for topics that are missing in the metadata and may be about to be deleted."""
_PAUSE_FACTOR = 10  # retries take at most a tenth of the time
_PARTITIONS_A_REQUEST = 2_000

_WRITTEN = frozenset(
    {ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION}
)  # the last two codes mean that the log's old format has no transactions
_NONE = ErrorCode.NONE
_NO_PARTITIONS: Mapping[int, PartitionInfo] = {}
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class TxnMarker(NamedTuple):
    """One transaction's end, for partitions of one leader."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    tps: Sequence[TopicPartition]


Written = dict[int, dict[TopicPartition, ErrorCode]]
"""Error codes of written markers, by producer id."""

WriteMarkers = Callable[[int, Sequence[TxnMarker]], Written | Awaitable[Written]]
"""Can raise any exception, for example if the broker is unreachable. Await the result if it is for another broker."""


class MarkersToSend(NamedTuple):
    owned: CoordinatedPartition
    transaction: Transaction
    markers: SendMarkers

    def for_leader(self, tps: Iterable[TopicPartition]) -> "MarkersToSend":
        return self._replace(markers=self.markers._replace(tps=frozenset(tps)))

    @property
    def marker(self) -> TxnMarker:
        """The marker for the leader."""
        producer, commit, tps = self.markers
        return TxnMarker(*producer, self.owned.epoch, commit, sorted(tps))


FindMissing = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""The topics that are not in ZooKeeper. Raises: RegistryError."""

OnWritten = Callable[[CoordinatedPartition, Transaction, Collection[TopicPartition]], None]


class TransactionMarkerChannels:
    """Sends markers.

    Args:
        on_written: called with partitions that have their marker, or need none.
        find_missing: for topics missing in metadata that may be incomplete.
        at_end_of_turn: calls a function at the end of the reactor's turn.
    """

    def __init__(
        self,
        clock: Timers,
        metadata: MetadataCache,
        write: WriteMarkers,
        on_written: OnWritten,
        find_missing: FindMissing,
        at_end_of_turn: AtEndOfTurn = at_once,
    ) -> None:
        self._find_missing = find_missing
        self._at_end_of_turn = at_end_of_turn
        self._clock = clock
        self._metadata = metadata
        self._write = write
        self._on_written = on_written
        self._queues: dict[int, deque[MarkersToSend]] = {}
        self._to_retry: list[MarkersToSend] = []
        self._undecided: list[MarkersToSend] = []  # awaiting a lookup of their topics
        self._is_looking_up = False
        self._look_up_again_s = -math.inf
        self._failures: dict[int, str] = {}  # last logged failure of each leader, because retries are frequent
        self._broker_epoch = metadata.broker_epoch
        self._settled_s = clock.seconds() + SETTLED_AFTER_S
        self._is_retrying = False
        self._timer: Any = None
        self._is_closed = False

    @property
    def unknown_destination_count(self) -> int:
        """Endings that wait for a leader, a retry or a lookup."""
        return len(self._to_retry) + len(self._undecided)

    def send(self, ending: MarkersToSend) -> None:
        if self._is_closed or not ending.owned.is_current:
            return
        by_leader: dict[int, list[TopicPartition]] = {}
        unknown: list[TopicPartition] = []
        undecided: list[TopicPartition] = []
        gone: list[TopicPartition] = []
        tps = ending.markers.tps
        topics, brokers = self._metadata.topics, self._metadata.brokers
        for tp in sorted(tps):
            info = topics.get(tp[0], _NO_PARTITIONS).get(tp[1])
            if info is None:
                (gone if self._is_settled else undecided).append(tp)
            elif info.leader in brokers:
                by_leader.setdefault(info.leader, []).append(tp)
            else:
                unknown.append(tp)
        if unknown:
            self._retry_later(ending.for_leader(unknown))
        if undecided:
            self._decide_later(ending.for_leader(undecided))
        for leader, its in by_leader.items():
            self._enqueue(leader, ending if len(its) == len(tps) else ending.for_leader(its))
        if gone:
            self._notify(ending, gone)

    @property
    def _is_settled(self) -> bool:
        metadata, now_s = self._metadata, self._clock.seconds()
        if metadata.broker_epoch != self._broker_epoch:
            self._broker_epoch, self._settled_s = metadata.broker_epoch, now_s + SETTLED_AFTER_S
        return bool(metadata.brokers) and now_s >= self._settled_s

    def _decide_later(self, ending: MarkersToSend) -> None:
        if self._is_looking_up or self._clock.seconds() < self._look_up_again_s:
            self._retry_later(ending)
            return
        self._undecided.append(ending)
        if len(self._undecided) == 1:
            self._at_end_of_turn(lambda: ensureDeferred(self._look_up()).addErrback(_log_bug, "their leaders"))

    async def _look_up(self) -> None:
        self._is_looking_up = True
        missing: Collection[str] = ()
        try:
            missing = await self._find_missing({tp.topic for ending in self._undecided for tp in ending.markers.tps})
        except RegistryError as error:
            _log.info("cannot look up which topics are gone, trying again: {error}", error=error)
        finally:  # keeps the endings after an unexpected error
            self._is_looking_up = False
            self._look_up_again_s = self._clock.seconds() + LOOK_UP_PAUSE_S
            undecided, self._undecided = self._undecided, []
            self._looked_up(undecided, missing)

    def _looked_up(self, undecided: Sequence[MarkersToSend], missing: Collection[str]) -> None:
        for ending in undecided:
            if self._is_closed or not ending.owned.is_current:
                continue
            gone = {tp for tp in ending.markers.tps if tp.topic in missing}
            if gone:
                self._notify(ending, gone)
            if others := ending.markers.tps - gone:
                self._retry_later(ending.for_leader(others))

    def _notify(self, ending: MarkersToSend, tps: Collection[TopicPartition]) -> None:
        """Notify the listener. An error in one transaction does not affect others."""
        try:
            self._on_written(ending.owned, ending.transaction, tps)
        except Exception:
            id_ = ending.transaction.transactional_id
            _log.failure("the completion of a transaction of {id} could not be processed", id=id_, level=LogLevel.error)

    def close(self) -> None:
        """Stop sending markers, and ignore the results of requests in progress."""
        self._is_closed = True
        self._queues.clear()
        self._to_retry.clear()
        self._undecided.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enqueue(self, leader: int, ending: MarkersToSend) -> None:
        queue = self._queues.get(leader)
        if queue is not None:
            queue.append(ending)
            return
        self._queues[leader] = deque([ending])
        self._at_end_of_turn(partial(self._run, leader))

    def _run(self, leader: int) -> None:
        waits = False
        try:
            while not waits and (queue := self._queues.get(leader)) and not self._is_closed:
                waits = self._exchange(leader, _take(queue))
        finally:
            if not waits:
                self._queues.pop(leader, None)

    def _exchange(self, leader: int, endings: list[MarkersToSend]) -> bool:
        """Returns True if the response must be awaited."""
        if not endings:
            return False
        try:
            written = self._write(leader, [ending.marker for ending in endings])
        except Exception as error:
            self._not_written(leader, endings, error)
            return False
        if isinstance(written, dict):
            self._all_answered(leader, endings, written)
            return False
        ensureDeferred(self._wait(leader, endings, written)).addErrback(_log_bug, f"broker {leader}")
        return True

    async def _wait(self, leader: int, endings: list[MarkersToSend], writing: Awaitable[Written]) -> None:
        try:
            written = await writing
        except Exception as error:
            self._not_written(leader, endings, error)
        else:
            self._all_answered(leader, endings, written)
        finally:
            self._run(leader)

    def _not_written(self, leader: int, endings: list[MarkersToSend], error: Exception) -> None:
        if self._failures.get(leader) != repr(error):
            self._failures[leader] = repr(error)
            _log.info("broker {id} did not write markers: {error}", id=leader, error=error)
        for ending in endings:
            self._retry_later(ending)

    def _all_answered(self, leader: int, endings: list[MarkersToSend], written: Written) -> None:
        self._failures.pop(leader, None)
        for ending in endings:
            self._answered(leader, ending, written.get(ending.markers.producer.producer_id, {}))

    def _answered(self, leader: int, ending: MarkersToSend, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        tps = ending.markers.tps
        if len(codes) == len(tps) == [*codes.values()].count(_NONE) and codes.keys() == tps:
            self._notify(ending, tps)
            return
        found = {tp: codes.get(tp, ErrorCode.UNKNOWN_SERVER_ERROR) for tp in tps}
        done = [tp for tp, code in found.items() if code in _WRITTEN]
        fenced = [tp for tp, code in found.items() if code in _FENCED]
        again = [tp for tp, code in found.items() if code not in _WRITTEN | _FENCED]
        if fenced:
            _log.warn(
                "broker {leader} knows a later epoch of {id} than {epoch}: another coordinator ends the transaction",
                leader=leader, id=ending.transaction.transactional_id, epoch=ending.markers.producer.producer_epoch,
            )  # fmt: skip
        elif again:
            self._retry_later(ending.for_leader(again))
        if done:
            self._notify(ending, done)

    def _retry_later(self, ending: MarkersToSend) -> None:
        if self._is_closed:
            return
        self._to_retry.append(ending)
        if self._timer is None and not self._is_retrying:
            self._timer = self._clock.callLater(RETRY_S, self._begin_retry)

    def _begin_retry(self) -> None:
        self._timer = None
        ensureDeferred(self._retry()).addErrback(_log_bug, "their leaders after a pause")

    async def _retry(self) -> None:
        """Retry in short steps; the longer they take, the longer the pause afterwards."""
        begun_s = self._clock.seconds()
        to_retry, self._to_retry = self._to_retry, []
        self._is_retrying = True
        try:
            await in_slices(self._clock, map(self.send, to_retry))
        finally:
            self._is_retrying = False
        if self._to_retry and not self._is_closed:
            pause_s = max(RETRY_S, _PAUSE_FACTOR * (self._clock.seconds() - begun_s))
            self._timer = self._clock.callLater(pause_s, self._begin_retry)


def _log_bug(failure: Failure, to: str) -> None:
    _log.failure("transaction markers could not be sent to {to}", failure, level=LogLevel.error, to=to)


def _take(queue: deque[MarkersToSend]) -> list[MarkersToSend]:
    """Take at least one ending for the next request, if any is left; endings of unloaded partitions are dropped."""
    taken = []
    count = 0
    while queue and count < _PARTITIONS_A_REQUEST:
        ending = queue.popleft()
        if ending.owned.is_current:
            taken.append(ending)
            count += len(ending.markers.tps)
    return taken
