"""Who may do what. Every handler asks; there is no authorizer yet, as in Kafka without ``authorizer.class.name``."""

import enum
import functools
from collections.abc import Collection
from typing import NamedTuple, Protocol

from kafka_zk.protocol.request import RequestContext
from kafka_zk.storage.types import new_tuple


class Operation(enum.Enum):
    """Source: AclOperation.java@3.9."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    ALTER = "Alter"
    DESCRIBE = "Describe"
    CLUSTER_ACTION = "ClusterAction"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class Resource(NamedTuple):
    """``type`` is Kafka's: Topic, Group, Cluster, TransactionalId."""

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
