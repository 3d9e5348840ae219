"""Fetch: redirects consumers to a replica near them (KIP-392).

Tests: tests/kafka_zk/broker/replica/test_replica_selector.py, tests/integration/brokers/test_closest_replica.py.
"""

from collections.abc import Callable

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.replica_selector import preferred_read_replica
from kafka_zk.protocol.errors import ApiError
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest
from kafka_zk.protocol.request import RequestContext

Elsewhere = Callable[[TopicPartition, FetchPartition], FetchedPartition | None]
"""The result for a partition that the consumer should read from another broker; None if it should not."""


def read_elsewhere(services: Services, context: RequestContext, request: FetchRequest) -> Elsewhere | None:
    """A function that chooses a replica for consumers in a rack. None if no selector is configured, or for a
    follower."""
    if services.config.replica_selector_class is None or request.replica_id >= 0:
        return None

    def choose(tp: TopicPartition, fetch: FetchPartition) -> FetchedPartition | None:
        replicas = services.replicas
        partition = replicas.partitions.get(tp)
        if partition is None:
            return None
        now_ms = replicas.isr_updates.now_ms()
        preferred = preferred_read_replica(
            partition, request.rack_id, context.listener_name, fetch.fetch_offset, services.metadata, now_ms
        )
        if preferred is None:
            return None
        try:
            log = partition.readable_log(fetch.current_leader_epoch)
        except ApiError as error:
            return FetchedPartition(fetch.partition, error.code)
        return FetchedPartition(
            fetch.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            preferred_read_replica=preferred,
        )

    return choose
