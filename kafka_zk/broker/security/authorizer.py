"""Who may do what. Every handler asks; there is no authorizer yet, as in Kafka without ``authorizer.class.name``."""

import enum
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from kafka_zk.base.types import new_tuple
from kafka_zk.protocol.request import RequestContext


class Operation(enum.IntEnum):
    """The numbers are Kafka's. Source: AclOperation.java@3.9."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


SUPPORTED_OPERATIONS: Mapping[str, Sequence[Operation]] = {
    "Topic": (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    "Group": (Operation.READ, Operation.DESCRIBE, Operation.DELETE),
    "Cluster": (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
}
"""The operations that each type of resource has. Source: AclEntry.supportedOperations@3.9."""


class Resource(NamedTuple):
    """``type`` is Kafka's: Topic, Group, Cluster, TransactionalId, DelegationToken, User."""

    type: str
    name: str


CLUSTER = Resource("Cluster", "kafka-cluster")


def group(name: str) -> Resource:
    return Resource("Group", name)


def transactional_id(name: str) -> Resource:
    return new_tuple(Resource, ("TransactionalId", name))


@functools.lru_cache(maxsize=1000)
def topic(name: str) -> Resource:
    return Resource("Topic", name)


class Authorizer(Protocol):
    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """Whether the principal of ``context`` may do that."""


class NoAuthorizer:
    """No authorizer configured: everyone may do everything, but what brokers ask of each other (CLUSTER_ACTION) comes
    through their own listener, where clients have others.

    Kafka accepts it on every listener.

    Args:
        broker_listeners: names of the inter-broker and the control-plane listener.
    """

    def __init__(self, broker_listeners: Collection[str]) -> None:
        self._broker_listeners = frozenset(broker_listeners)

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return operation is not Operation.CLUSTER_ACTION or context.listener_name in self._broker_listeners


def authorized_operations(authorizer: Authorizer, context: RequestContext, resource: Resource) -> int:
    """The operations on ``resource`` that the principal of ``context`` may carry out, a bit for each (KIP-430)."""
    supported = SUPPORTED_OPERATIONS[resource.type]
    return sum(1 << operation for operation in supported if authorizer.authorize(context, operation, resource))


def cluster_operations(authorizer: Authorizer, context: RequestContext) -> int:
    """As ``authorized_operations``, for the cluster: none without the permission to describe it.

    Source: KafkaApis.handleTopicMetadataRequest, AuthHelper.computeDescribeClusterResponse@3.9.
    """
    if not authorizer.authorize(context, Operation.DESCRIBE, CLUSTER):
        return 0
    return authorized_operations(authorizer, context, CLUSTER)
