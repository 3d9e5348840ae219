"""A broker's transaction coordinator, with connections to other brokers and periodic work."""

from collections.abc import Awaitable, Callable, Sequence

from kafka_zk.base.clock import end_of_turn
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.transactions.write_txn_markers import write
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.process.foundation import Foundation
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.transaction_markers import TransactionMarker
from kafka_zk.broker.transaction.config import TransactionConfig
from kafka_zk.broker.transaction.coordinator import CoordinatorHost, TransactionCoordinator
from kafka_zk.broker.transaction.events import TransactionReporter
from kafka_zk.broker.transaction.marker_channels import FindMissing, TxnMarker, Written
from kafka_zk.broker.transaction.marker_client import MarkerClient
from kafka_zk.broker.transaction.producer_ids import ProducerIdManager
from kafka_zk.network.client import KafkaConnection
from kafka_zk.registry import producer_ids
from kafka_zk.registry.client.session import retry_until_connected


class BrokerTransactions:
    """``connect``: connects to a broker and negotiates versions. ``find_missing``: returns the topics that are not in
    ZooKeeper."""

    def __init__(
        self,
        base: Foundation,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        connect: Callable[[str, int], Awaitable[KafkaConnection]],
        find_missing: FindMissing,
    ) -> None:
        self._config = config = base.config
        self._client = MarkerClient(metadata, config.inter_broker_listener, connect)

        async def allocate_block() -> range:
            """Allocate a block, even twice if the connection is lost, because unused ids do no harm."""
            return await retry_until_connected(
                base.client, lambda: producer_ids.allocate_block(base.client, base.broker_id)
            )

        self.coordinator = TransactionCoordinator(
            TransactionConfig.of(config),
            base.machine.clock,
            replicas,
            metadata,
            ProducerIdManager(allocate_block),
            CoordinatorHost(
                self._write_markers,
                find_missing,
                TransactionReporter(base.events).report,
                end_of_turn(base.machine.reactor),
            ),
        )
        self._broker_id = replicas.broker_id
        self._services: Services | None = None
        replicas.role_listeners.append(self.coordinator.role_changed)

    def serve(self, services: Services) -> None:
        """Write this broker's own markers through its services."""
        self._services = services

    def _write_markers(self, broker_id: int, markers: Sequence[TxnMarker]) -> Written | Awaitable[Written]:
        if broker_id != self._broker_id or self._services is None:
            return self._client.write(broker_id, markers)
        return write(self._services, [(TransactionMarker(*each[:4]), each.tps) for each in markers])

    @property
    def periodic_work(self) -> list[tuple[int, Callable[[], object]]]:
        """The periodic tasks, as (interval in ms, task)."""
        config = self._config
        return [
            (config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self.coordinator.abort_timed_out),
            (config.transaction_remove_expired_transaction_cleanup_interval_ms, self.coordinator.remove_expired),
        ]

    def close(self) -> None:
        self.coordinator.close()
        self._client.close()
