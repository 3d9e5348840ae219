"""Who may do what. Every handler asks; for now everything is allowed, as in Kafka without ``authorizer.class.name``."""

import enum
import functools
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


class AllowAll:
    """No authorizer configured."""

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return True
