"""Connects the verification of transactions with their coordinators to a broker's services."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.add_partitions_to_txn_manager import AddPartitionsToTxnManager, CoordinatorConnection
from kafka_zk.broker.replica.transaction_verification import (
    RefusedPartitions,
    TransactionToVerify,
    TransactionVerification,
)
from kafka_zk.broker.transaction.requests import ProducerIdAndEpoch
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.storage.log.log import Log


def verify_transactions(
    services: Services, connect: Callable[[int], Awaitable[CoordinatorConnection]]
) -> AddPartitionsToTxnManager:
    """Verify transactions from now on. ``connect``: connects to another broker. The caller closes the result."""

    def verify(transaction: TransactionToVerify, tps: Sequence[TopicPartition]) -> RefusedPartitions:
        transactional_id, producer_id, producer_epoch, _ = transaction
        producer = new_tuple(ProducerIdAndEpoch, (producer_id, producer_epoch))
        # This broker leads ``tps``, so they exist.
        return services.transactions.verify(transactional_id, producer, tps)

    manager = AddPartitionsToTxnManager(services.broker_id, partial(coordinator_of, services), connect, verify)

    def leader_log(tp: TopicPartition) -> Log:
        replicas = services.replicas
        return (replicas.partitions.get(tp) or replicas.partition(tp)).leader_log()

    def is_enabled() -> bool:
        return services.config.transaction_partition_verification_enable

    services.replicas.verification = TransactionVerification(
        leader_log, is_enabled, manager.ask, services.clock.wall_ms
    )
    return manager


def coordinator_of(services: Services, transactional_id: str) -> int | None:
    """The broker that FindCoordinator would return, or None."""
    metadata = services.metadata
    found = metadata.partition(TRANSACTION_STATE_TOPIC, services.transactions.partition_for(transactional_id))
    return None if found is None or not metadata.is_alive(found.leader) else found.leader
