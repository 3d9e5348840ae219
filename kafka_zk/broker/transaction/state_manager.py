"""This broker's transactional ids, in the partitions of ``__transaction_state`` that it leads. Carries out the effects
of their changes.

Source: TransactionStateManager.scala, TransactionCoordinator.onElection, onResignation@3.9.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger, LogLevel
from twisted.python.failure import Failure

from kafka_zk.base.clock import Clock
from kafka_zk.base.turns import after, in_slices
from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.broker.coordinator.held_memory import HeldMemory
from kafka_zk.broker.coordinator.keys import is_storable, partition_for
from kafka_zk.broker.coordinator.partition_count import PartitionCount
from kafka_zk.broker.coordinator.replies import Replies
from kafka_zk.broker.coordinator.tombstones import batches_of_tombstones
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.delayed_produce import APPEND_ERRORS
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.broker.transaction.appends import TransactionLog
from kafka_zk.broker.transaction.committed_log import until_committed
from kafka_zk.broker.transaction.config import TransactionConfig
from kafka_zk.broker.transaction.loading import LoadedPartition
from kafka_zk.broker.transaction.marker_channels import MarkersToSend
from kafka_zk.broker.transaction.memory import held_bytes
from kafka_zk.broker.transaction.partitions import CoordinatedPartition
from kafka_zk.broker.transaction.records import encode_key
from kafka_zk.broker.transaction.requests import Answer, Append, Effect, Result, SendMarkers
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.broker.transaction.transaction import Transaction
from kafka_zk.protocol.errors import ErrorCode

_log = Logger()

RETRY_S = 0.1
_ROOM_SHARE = 8  # 1/_ROOM_SHARE of the memory is freed together
_AT_ONCE = 64
_MOST_RECENT = 1024
_NONE, _ONGOING = ErrorCode.NONE, TransactionState.ONGOING

Report = Callable[[Transaction], None]
"""A transaction's new state is in the log."""


class TransactionStateManager:
    """``send_markers``: sends markers, then calls ``markers_written``."""

    def __init__(
        self,
        config: TransactionConfig,
        clock: Clock,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        send_markers: Callable[[MarkersToSend], None],
        report: Report = lambda transaction: None,
    ) -> None:
        self.partitions: dict[int, CoordinatedPartition] = {}
        self.replies = Replies()
        self.memory = HeldMemory("transactional ids", config.memory_max_bytes)
        self.partition_count = PartitionCount(metadata, TRANSACTION_STATE_TOPIC, config.partition_count)
        self.is_active = True
        self.append_retry_count = 0  # number of waiting retries
        self._log = TransactionLog(replicas, clock)
        self._config = config
        self._clock = clock
        self._replicas = replicas
        self._send_markers = send_markers
        self._report = report
        self._loading: dict[int, CoordinatedPartition] = {}
        self._loads = DeferredLock()
        self._makes_room = False
        self._recent: dict[str, tuple[CoordinatedPartition, Transaction]] = {}  # caches ``partitions``

    # Transactional ids.

    def partition_for(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` that contains the id."""
        return partition_for(transactional_id, self.partition_count())

    def find(self, transactional_id: str) -> CoordinatedPartition | ErrorCode:
        """The partition of the id, or the error if this broker cannot serve it now."""
        if not is_storable(transactional_id):
            return ErrorCode.INVALID_REQUEST
        if not self.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        number = self.partition_for(transactional_id)
        if number in self._loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self.partitions.get(number, ErrorCode.NOT_COORDINATOR)

    def known(self, transactional_id: str) -> tuple[CoordinatedPartition, Transaction] | ErrorCode:
        """A known id with its partition, or the error for the client."""
        recent = self._recent.get(transactional_id)
        if recent is not None:
            return recent
        owned = self.find(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
        if isinstance(owned, ErrorCode):
            return owned
        transaction = owned.transactions.get(transactional_id)
        if transaction is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if len(self._recent) >= _MOST_RECENT:
            self._recent.clear()
        found = self._recent[transactional_id] = owned, transaction
        return found

    @property
    def is_loading(self) -> bool:
        """True while transactional ids may be missing, because a partition is being loaded."""
        return bool(self._loading)

    def add(self, owned: CoordinatedPartition, transaction: Transaction) -> None:
        """Add a new id, which is removed again if its first record cannot be written."""
        owned.transactions[transaction.transactional_id] = transaction
        self._count(transaction)

    # Partitions.

    def role_changed(self, partition: Partition) -> None:
        """Load the partition when this broker leads it in a new epoch; unload it when this broker no longer leads
        it."""
        topic, number = partition.tp
        if topic != TRANSACTION_STATE_TOPIC or not self.is_active:
            return
        known = self._loading.get(number) or self.partitions.get(number)
        is_leader = partition.role is Role.LEADER
        if known is not None and not (is_leader and known.epoch == partition.leader_epoch):
            self._unload(number)
            known = None
        if is_leader and known is None:
            owned = self._loading[number] = CoordinatedPartition(number, partition.leader_epoch)
            ensureDeferred(self._load(owned)).addErrback(_log_bug, f"loading {owned.tp}")

    def close(self) -> None:
        """Unload all partitions; all waiting requests get a response."""
        self.is_active = False
        for number in [*self._loading, *self.partitions]:
            self._unload(number)

    async def _load(self, owned: CoordinatedPartition) -> None:
        """Load one partition at a time, in short steps."""
        loaded = LoadedPartition()
        async with self._loads:
            try:
                await in_slices(self._clock, self._load_steps(owned, loaded))
            except APPEND_ERRORS as error:
                _log.error(
                    "{topic}-{p} cannot be read: {error}", topic=TRANSACTION_STATE_TOPIC, p=owned.number, error=error
                )
        await until_committed(self._replicas, owned.tp, lambda: owned.is_current)
        if not owned.is_current:
            return
        del self._loading[owned.number]
        self.partitions[owned.number] = owned
        loaded.log_result(owned.tp, f"{len(owned.transactions)} transactional ids")
        await in_slices(self._clock, self._go_on_steps(owned))

    def _load_steps(self, owned: CoordinatedPartition, loaded: LoadedPartition) -> Iterator[None]:
        for _ in loaded.load_steps(self._replicas, owned.tp, self._config.load_buffer_bytes):
            if not owned.is_current:
                return
            yield
        for transactional_id, metadata in loaded.transactions.items():
            if not owned.is_current:
                return
            self.add(owned, Transaction(transactional_id, metadata))
            yield
        loaded.transactions = {}

    def _go_on_steps(self, owned: CoordinatedPartition) -> Iterator[None]:
        """Complete the transactions that the previous leader was ending."""
        for transaction in list(owned.transactions.values()):
            if not owned.is_current:
                return
            self._note_state(owned, transaction)
            if transaction.pending is None:
                now_ms = self._clock.wall_ms()
                self.carry_out(owned, transaction, transaction.complete_prepared(now_ms), now_ms)
            yield

    def _unload(self, number: int) -> None:
        owned = self._loading.pop(number, None) or self.partitions.pop(number)
        owned.is_current = False
        self._recent.clear()
        transactions, owned.transactions, owned.ongoing = owned.transactions, {}, {}
        closing = in_slices(self._clock, self._closing_steps(transactions.values()))
        ensureDeferred(closing).addErrback(_log_bug, f"unloading {owned.tp}")

    def _closing_steps(self, transactions: Iterable[Transaction]) -> Iterator[None]:
        for transaction in transactions:
            self.memory.changed(-transaction.counted_bytes)
            if transaction.waiting is not None:
                self.replies.answer(transaction.waiting, Result(ErrorCode.NOT_COORDINATOR))
            yield

    # Effects.

    def carry_out(
        self, owned: CoordinatedPartition, transaction: Transaction, effects: list[Effect], now_ms: int
    ) -> None:
        """Carry out effects immediately, except after an append that is not complete yet."""
        for effect in effects:  # more may be appended during the loop
            if isinstance(effect, Append):
                if effect.is_retry:
                    storing = self._store_again(owned, transaction, effect)
                    ensureDeferred(storing).addErrback(_log_bug, _storing(transaction))
                    continue
                stored = self._log.store(owned.tp, transaction.transactional_id, effect.metadata, now_ms)
                if isinstance(stored, ErrorCode):
                    effects += self._stored(owned, transaction, stored, now_ms)
                else:
                    later = self._store_later(owned, transaction, stored)
                    ensureDeferred(later).addErrback(_log_bug, _storing(transaction))
            elif isinstance(effect, Answer):
                if effect.reply is not None:
                    self.replies.answer(effect.reply, effect.result)
            elif isinstance(effect, SendMarkers):
                self._send_markers(new_tuple(MarkersToSend, (owned, transaction, effect)))

    async def _store_later(
        self, owned: CoordinatedPartition, transaction: Transaction, stored: Awaitable[ErrorCode]
    ) -> None:
        error = await stored
        if owned.is_current:
            now_ms = self._clock.wall_ms()
            self.carry_out(owned, transaction, self._stored(owned, transaction, error, now_ms), now_ms)

    async def _store_again(self, owned: CoordinatedPartition, transaction: Transaction, effect: Append) -> None:
        self.append_retry_count += 1
        await after(self._clock, RETRY_S)
        self.append_retry_count -= 1
        if owned.is_current:
            self.carry_out(owned, transaction, [Append(effect.metadata)], self._clock.wall_ms())

    def _stored(
        self, owned: CoordinatedPartition, transaction: Transaction, error: ErrorCode, now_ms: int
    ) -> list[Effect]:
        effects = transaction.appended(error, now_ms)
        if error is _NONE:
            self._note_state(owned, transaction)
            self._report(transaction)
            self._count(transaction)
            return effects
        _log.warn("transactional id {id} cannot be stored: {error}", id=transaction.transactional_id, error=error.name)
        if transaction.is_blank:
            self._forget(owned, transaction)
        else:
            self._count(transaction)
        return effects

    def _note_state(self, owned: CoordinatedPartition, transaction: Transaction) -> None:
        if transaction.metadata.state is _ONGOING:
            owned.ongoing[transaction.transactional_id] = transaction
        else:
            owned.ongoing.pop(transaction.transactional_id, None)

    def _forget(self, owned: CoordinatedPartition, transaction: Transaction) -> None:
        del owned.transactions[transaction.transactional_id]
        self._recent.pop(transaction.transactional_id, None)
        self.memory.changed(-transaction.counted_bytes)

    def _count(self, transaction: Transaction) -> None:
        size_bytes = held_bytes(transaction)
        if size_bytes != transaction.counted_bytes:
            self.memory.changed(size_bytes - transaction.counted_bytes)
            transaction.counted_bytes = size_bytes

    def markers_written(
        self, owned: CoordinatedPartition, transaction: Transaction, tps: Collection[TopicPartition]
    ) -> None:
        """Record that these partitions have their marker, or are deleted."""
        if owned.is_current:
            now_ms = self._clock.wall_ms()
            effects = transaction.markers_written(tps, now_ms)
            if effects:
                self.carry_out(owned, transaction, effects, now_ms)
            else:
                self._count(transaction)

    # Time.

    async def abort_timed_out(self) -> None:
        """Abort transactions that are open longer than their timeout."""
        await in_slices(self._clock, self._abort_steps())

    def _abort_steps(self) -> Iterator[None]:
        for owned in list(self.partitions.values()):
            for transaction in list(owned.ongoing.values()):
                if not owned.is_current:
                    break
                now_ms = self._clock.wall_ms()
                effects = transaction.time_out(now_ms)
                if effects:
                    _log.info("transaction of {id} has timed out: it is aborted", id=transaction.transactional_id)
                self.carry_out(owned, transaction, effects, now_ms)
                yield

    async def remove_expired(self) -> None:
        """Remove transactional ids that were not used for ``transactional.id.expiration.ms``.

        A partition's tombstones are all begun before the first is awaited. Until an id's tombstone is written, requests
        for the id get a retriable error.
        """
        for owned in list(self.partitions.values()):
            steps = await in_slices(self._clock, self._expire_steps(owned))
            expired = [transaction for transaction in steps if transaction is not None]
            parts = batches_of_tombstones(expired, lambda each: encode_key(each.transactional_id))
            for begun in await in_slices(self._clock, (ensureDeferred(self._remove(owned, part)) for part in parts)):
                await begun

    def _expire_steps(self, owned: CoordinatedPartition) -> Iterator[Transaction | None]:
        """Examine one id per step, and yield it if it has expired."""
        for transaction in list(owned.transactions.values()):
            if not owned.is_current:
                return
            has_expired = transaction.expire(self._clock.wall_ms(), self._config.id_expiration_ms)
            yield transaction if has_expired else None

    def make_room(self) -> None:
        """Begin to remove the oldest unused ids of the client address that has the most ids, unless a removal is in
        progress."""
        if not self._makes_room:
            self._makes_room = True
            ensureDeferred(self._remove_unused()).addErrback(_log_bug, "removing unused transactional ids")

    async def _remove_unused(self) -> None:
        unused: dict[str, list[tuple[CoordinatedPartition, Transaction]]] = {}
        await in_slices(self._clock, self._unused_steps(unused))
        of_one_peer = max(unused.values(), key=len, default=[])
        removed_bytes, by_partition = 0, dict[CoordinatedPartition, list[Transaction]]()
        for owned, transaction in of_one_peer:
            if removed_bytes * _ROOM_SHARE >= self.memory.limit_bytes:
                break
            if owned.is_current and transaction.is_unused:
                transaction.remove()
                removed_bytes += transaction.counted_bytes
                by_partition.setdefault(owned, []).append(transaction)
        for owned, removed in by_partition.items():
            for part in batches_of_tombstones(removed, lambda each: encode_key(each.transactional_id)):
                await after(self._clock, 0)
                await self._remove(owned, part)
        self._makes_room = False

    def _unused_steps(self, unused: dict[str, list[tuple[CoordinatedPartition, Transaction]]]) -> Iterator[None]:
        for owned in list(self.partitions.values()):
            for number, transaction in enumerate(list(owned.transactions.values())):
                if transaction.is_unused:
                    unused.setdefault(transaction.peer, []).append((owned, transaction))
                if number % _AT_ONCE == 0:
                    yield

    async def _remove(self, owned: CoordinatedPartition, expired: list[Transaction]) -> None:
        if not owned.is_current:
            return
        removed = self._log.remove(owned.tp, [each.transactional_id for each in expired])
        error = removed if isinstance(removed, ErrorCode) else await removed
        for transaction in expired:
            if error is not ErrorCode.NONE:
                transaction.removal_failed()
            elif owned.is_current:
                self._forget(owned, transaction)


def _storing(transaction: Transaction) -> str:
    return f"storing transactional id {transaction.transactional_id}"


def _log_bug(failure: Failure, work: str) -> None:
    _log.failure("{work} failed", failure, level=LogLevel.error, work=work)
