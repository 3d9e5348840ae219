"""Leader hints (KIP-951): an error that makes a client look for the leader contains the leader's id and address.

Other responses have no additional cost. Source: KafkaApis.getCurrentLeader@3.9.
"""

from collections.abc import Iterable, Sequence

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.fetch_session import TopicKey
from kafka_zk.broker.replica.partition import Role
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.protocol.leader_hint import CurrentLeader, NodeEndpoint
from kafka_zk.protocol.produce import TopicResult

PRODUCE_SINCE = 10
FETCH_SINCE = 16
_PRODUCE_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER})
_FETCH_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class LeaderHints:
    """``endpoints``: addresses of the leaders that are alive and have the request's listener."""

    def __init__(self, services: Services, listener_name: str) -> None:
        self._services = services
        self._listener_name = listener_name
        self.endpoints: dict[int, NodeEndpoint] = {}

    def of(self, tp: TopicPartition) -> CurrentLeader:
        """The leader that this broker's replica knows. Without a replica, the leader in the metadata cache."""
        partition = self._services.replicas.partitions.get(tp)
        is_here = partition is not None and partition.role is not Role.OFFLINE
        known = partition if is_here else self._services.metadata.partition(*tp)
        if known is None:
            return CurrentLeader(-1, -1)
        self._add_endpoint(known.leader)
        return CurrentLeader(known.leader, known.leader_epoch)

    def _add_endpoint(self, leader: int) -> None:
        broker = self._services.metadata.brokers.get(leader)
        address = None if broker is None else broker.endpoints.get(self._listener_name)
        if broker is not None and address is not None:
            self.endpoints[leader] = NodeEndpoint(leader, address.host, address.port, broker.rack)


def add_to_produce(services: Services, listener_name: str, topics: Sequence[TopicResult]) -> Sequence[NodeEndpoint]:
    """Add the leader to results that need it. Returns the leaders' addresses."""
    hints = LeaderHints(services, listener_name)
    for topic, results in topics:
        for place, result in enumerate(results):
            if result.error_code in _PRODUCE_ERRORS:
                tp = TopicPartition(topic, result.partition)
                results[place] = result._replace(current_leader=hints.of(tp))
    return tuple(hints.endpoints.values())


def add_to_fetched(
    services: Services,
    listener_name: str,
    tps: Iterable[TopicPartition],
    fetched: list[tuple[TopicKey, FetchedPartition]],
) -> Sequence[NodeEndpoint]:
    """Like ``add_to_produce``, for the results of a fetch."""
    hints = LeaderHints(services, listener_name)
    for place, (tp, (topic, result)) in enumerate(zip(tps, fetched, strict=True)):
        if result.error_code in _FETCH_ERRORS:
            fetched[place] = (topic, result._replace(current_leader=hints.of(tp)))
    return tuple(hints.endpoints.values())
