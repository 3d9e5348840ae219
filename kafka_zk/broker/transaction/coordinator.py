"""The operations of the transaction APIs.

The coordinator finds the transaction and passes the time to it; the state manager carries out the effects. Client
errors are returned, not raised. Source: TransactionCoordinator.scala@3.9.
"""

from collections.abc import Awaitable, Collection
from typing import NamedTuple

from kafka_zk.base.clock import AtEndOfTurn, Clock, at_once
from kafka_zk.base.turns import in_turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.partition_count import PartitionCount
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.transaction.config import TransactionConfig
from kafka_zk.broker.transaction.marker_channels import FindMissing, TransactionMarkerChannels, WriteMarkers
from kafka_zk.broker.transaction.memory import ID_BYTES, PARTITION_BYTES
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.broker.transaction.partitions import CoordinatedPartition
from kafka_zk.broker.transaction.producer_ids import ProducerIdManager
from kafka_zk.broker.transaction.requests import ProducerIdAndEpoch, Result
from kafka_zk.broker.transaction.state_manager import Report, TransactionStateManager
from kafka_zk.broker.transaction.states import STATES_BY_NAME
from kafka_zk.broker.transaction.transaction import Transaction
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.errors import RegistryError


class TransactionOverview(NamedTuple):
    """A transactional id in a ListTransactions response."""

    transactional_id: str
    producer_id: int
    state: str


class Transactions(NamedTuple):
    """``unknown_states``: filters that match no state name."""

    error: ErrorCode
    unknown_states: tuple[str, ...] = ()
    transactions: tuple[TransactionOverview, ...] = ()


class TransactionCounts(NamedTuple):
    """Counts for metrics. ``unknown_destinations``: ending transactions whose markers wait for a leader or a retry.
    ``held_bytes``: the memory of all ids."""

    transactional_ids: int
    ongoing: int
    unknown_destinations: int
    append_retries: int
    held_bytes: int


class CoordinatorHost(NamedTuple):
    """The parts of the broker that the coordinator uses.

    Attributes:
        write_markers: makes a broker, possibly this one, write markers.
        find_missing: returns the topics that are not in ZooKeeper.
        report: called after a transaction's new state was written to the log.
        at_end_of_turn: calls a function at the end of the reactor's turn; markers of one turn are sent together.
    """

    write_markers: WriteMarkers
    find_missing: FindMissing
    report: Report = lambda transaction: None
    at_end_of_turn: AtEndOfTurn = at_once


class TransactionCoordinator:
    def __init__(
        self,
        config: TransactionConfig,
        clock: Clock,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        producer_ids: ProducerIdManager,
        host: CoordinatorHost,
    ) -> None:
        self._config = config
        self._clock = clock
        self._producer_ids = producer_ids
        self._manager = TransactionStateManager(
            config, clock, replicas, metadata, lambda ending: self.markers.send(ending), host.report
        )
        self.markers = TransactionMarkerChannels(
            clock, metadata, host.write_markers, self._manager.markers_written, host.find_missing, host.at_end_of_turn
        )

    def role_changed(self, partition: Partition) -> None:
        """Load or unload the ids of a partition whose leadership this broker gains or loses."""
        self._manager.role_changed(partition)

    @property
    def partition_count(self) -> PartitionCount:
        """The partition count of ``__transaction_state``."""
        return self._manager.partition_count

    def partition_for(self, transactional_id: str) -> int:
        """The partition of ``__transaction_state`` whose leader coordinates the id."""
        return self._manager.partition_for(transactional_id)

    @property
    def counts(self) -> TransactionCounts:
        partitions = self._manager.partitions.values()
        return TransactionCounts(
            sum(len(owned.transactions) for owned in partitions),
            sum(len(owned.ongoing) for owned in partitions),
            self.markers.unknown_destination_count,
            self._manager.append_retry_count,
            self._manager.memory.used_bytes,
        )

    def close(self) -> None:
        """Stop; all waiting requests get a response."""
        self._manager.close()
        self.markers.close()

    async def abort_timed_out(self) -> None:
        """Abort transactions that are open longer than their timeout."""
        await self._manager.abort_timed_out()

    async def remove_expired(self) -> None:
        await self._manager.remove_expired()

    # Requests of producers.

    async def new_producer_id(self) -> Result:
        """A producer id for an idempotent producer without a transactional id."""
        try:
            return Result(ErrorCode.NONE, ProducerIdAndEpoch(await self._producer_ids.next_id(), 0))
        except RegistryError:
            return Result(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # as in Kafka during the allocation of a block

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, peer: str = ""
    ) -> Result:
        """Initialise a producer, or bump its epoch after an error (``expected``, KIP-360). ``peer``: the client's
        address.

        Without memory for a new id, the client gets a retriable error, and unused ids are removed.
        Raises: ClientGone.
        """
        if not transactional_id:
            return Result(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            return Result(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        found = self._find(transactional_id)
        if isinstance(found, ErrorCode):
            return Result(found)
        owned, transaction = found
        new_producer_id = None
        if transaction is None or transaction.needs_producer_id:
            if transaction is None and not self._manager.memory.has_room(ID_BYTES + len(transactional_id), peer):
                self._manager.make_room()
                return Result(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            new_producer_id = self._producer_ids.next_id_in_block()
            if new_producer_id is None:
                error, (new_producer_id, _) = await self.new_producer_id()
                if error is not ErrorCode.NONE:
                    return Result(error)
                if not owned.is_current:
                    return Result(ErrorCode.NOT_COORDINATOR)
                transaction = owned.transactions.get(transactional_id)
        now_ms = self._clock.wall_ms()
        if transaction is None:
            assert new_producer_id is not None, "a new transactional id needs a producer id"
            transaction = Transaction.new(transactional_id, new_producer_id, timeout_ms, now_ms)
            transaction.peer = peer
            self._manager.add(owned, transaction)
        reply = self._manager.replies.open()
        effects = transaction.init_producer_id(reply, timeout_ms, expected, new_producer_id, now_ms)
        self._manager.carry_out(owned, transaction, effects, now_ms)
        outcome = self._manager.replies.outcome(reply)
        result: Result = outcome if isinstance(outcome, Result) else await outcome
        return result

    def add_partitions(
        self, transactional_id: str, producer: ProducerIdAndEpoch, tps: frozenset[TopicPartition]
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """Add existing partitions to the transaction. If the append is not complete, await the result, which may raise
        ClientGone."""
        manager = self._manager
        found = manager.known(transactional_id)
        if isinstance(found, ErrorCode):
            return found
        owned, transaction = found
        if not manager.memory.has_room(len(tps - transaction.metadata.tps) * PARTITION_BYTES):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        reply, now_ms = manager.replies.open(), self._clock.wall_ms()
        manager.carry_out(owned, transaction, transaction.add_partitions(reply, producer, tps, now_ms), now_ms)
        return _error(manager.replies.outcome(reply))

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, tps: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Errors for the partitions that are not in the producer's open transaction (KIP-890)."""
        found = self._manager.known(transactional_id)
        if isinstance(found, ErrorCode):
            return dict.fromkeys(tps, found)
        return found[1].verify(producer, tps)

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, *, commit: bool
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """Commit or abort; NONE means that the decision is in the log. The result may have to be awaited, as in
        ``add_partitions``."""
        manager = self._manager
        found = manager.known(transactional_id)
        if isinstance(found, ErrorCode):
            return found
        owned, transaction = found
        reply, now_ms = manager.replies.open(), self._clock.wall_ms()
        manager.carry_out(owned, transaction, transaction.end(reply, producer, now_ms, commit=commit), now_ms)
        return _error(manager.replies.outcome(reply))

    # Administration.

    def describe(self, transactional_id: str) -> TransactionMetadata | ErrorCode:
        """The state of a transactional id, or the error."""
        found = self._find(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
        if isinstance(found, ErrorCode):
            return found
        transaction = found[1]
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transaction is None else transaction.metadata

    async def list_transactions(
        self, states: Collection[str], producer_ids: Collection[int], duration_ms: int
    ) -> Transactions:
        """Transactions filtered by state and producer id (empty: all), open for more than ``duration_ms`` (-1: all)."""
        if not self._manager.is_active:
            return Transactions(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._manager.is_loading:
            return Transactions(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        wanted = {STATES_BY_NAME[name] for name in states if name in STATES_BY_NAME}
        unknown = tuple(dict.fromkeys(name for name in states if name not in STATES_BY_NAME))
        producers = frozenset(producer_ids)
        now_ms = self._clock.wall_ms()
        listed = []
        for owned in list(self._manager.partitions.values()):
            async for transaction in in_turns(self._clock, list(owned.transactions.values())):
                metadata = transaction.metadata
                if (
                    (not states or metadata.state in wanted)
                    and (not producers or metadata.producer_id in producers)
                    and (duration_ms < 0 or now_ms - metadata.start_ms > duration_ms)
                ):
                    listed.append(
                        TransactionOverview(transaction.transactional_id, metadata.producer_id, metadata.state.value)
                    )
        return Transactions(ErrorCode.NONE, unknown, tuple(listed))

    def _find(self, transactional_id: str) -> tuple[CoordinatedPartition, Transaction | None] | ErrorCode:
        owned = self._manager.find(transactional_id)
        return owned if isinstance(owned, ErrorCode) else (owned, owned.transactions.get(transactional_id))


def _error(outcome: Result | Awaitable[Result]) -> ErrorCode | Awaitable[ErrorCode]:
    return outcome.error if isinstance(outcome, Result) else _error_later(outcome)


async def _error_later(waiting: Awaitable[Result]) -> ErrorCode:
    return (await waiting).error
