"""Decides for all handlers what a principal may do. Without ``authorizer.class.name``, clients may do everything, as in
Kafka; see ``NoAuthorizer``."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kafka_zk.base.types import new_tuple
from kafka_zk.protocol.request import RequestContext
from kafka_zk.protocol.topic_names import MAX_NAME_LENGTH
from kafka_zk.security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Acl, AclFilter, Acls, Pattern
from kafka_zk.security.acl import Operation as Operation


class Resource(NamedTuple):
    """``type``: Topic, Group, Cluster, TransactionalId, DelegationToken, User."""

    type: str
    name: str


CLUSTER = Resource("Cluster", CLUSTER_NAME)


def group(name: str) -> Resource:
    return Resource("Group", name)


def transactional_id(name: str) -> Resource:
    return new_tuple(Resource, ("TransactionalId", name))


MOST_TOPICS = 5_000
"""Maximum number of cached topic resources, about 2 MB."""


class _Topics(dict[str, Resource]):
    """Cache. Clients may send names of 32 KB; names that are too long for a topic are not cached."""

    def __missing__(self, name: str) -> Resource:
        made = Resource("Topic", name)
        if len(name) <= MAX_NAME_LENGTH:
            if len(self) >= MOST_TOPICS:
                self.clear()
            self[name] = made
        return made


topic: Callable[[str], Resource] = _Topics().__getitem__
"""The resource of the topic with this name."""


_SUPPORTED_OPERATIONS = {each.label: operations for each, operations in SUPPORTED_OPERATIONS.items()}


class AclStore(Protocol):
    """The ACLs, which clients may list and change."""

    def described(self, wanted: AclFilter) -> Mapping[Pattern, Sequence[Acl]]:
        """The ACLs that a filter selects, sorted, without unknown ones."""

    async def add(self, pattern: Pattern, added: Acls) -> None:
        """Add ACLs. Returns when they are in force on this broker. Raises RegistryError."""

    async def remove(self, pattern: Pattern, wanted: AclFilter) -> Acls:
        """Remove ACLs. Returns the removed ones, when they are no longer in force on this broker. Raises
        RegistryError."""


class AuthorizerCounts(NamedTuple):
    """``denials``: number of denials since the start. ``patterns``: number of resource patterns with ACLs.
    ``unreadable``: how many of these have ACLs that could not be read; everyone except super users is denied there."""

    denials: int = 0
    patterns: int = 0
    unreadable: int = 0


class Authorizer:
    """Base class of authorizers.

    Attributes:
        acls: the ACLs that clients can list and change; None if there are none.
        has_rules: ``authorizer.class.name`` is set.
    """

    acls: AclStore | None = None
    has_rules = True

    @property
    def counts(self) -> AuthorizerCounts:
        return AuthorizerCounts()

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """True if the principal may perform the operation. A denial is logged, so use this if the client receives the
        denial."""
        raise NotImplementedError

    def may(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """Like ``authorize``, but without logging: to filter results, or before another permission is checked."""
        return self.authorize(context, operation, resource)

    def may_any(self, context: RequestContext, operation: Operation, resource_type: str) -> bool:
        """True if the principal may perform the operation on some resource of the type."""
        return False

    def visible_topics(self, context: RequestContext, names: Sequence[str]) -> Iterable[str]:
        """The topics among ``names`` that the principal ``may`` describe, in the same order."""
        return (name for name in names if self.may(context, Operation.DESCRIBE, topic(name)))

    async def purge_changes(self, now_ms: int) -> None:
        """Remove old change notifications from ZooKeeper. ``now_ms``: wall clock. Raises RegistryError."""

    def close(self) -> None:
        """Stop following changes, because the broker is stopping."""


class NoAuthorizer(Authorizer):
    """Allows everything, except that requests between brokers (CLUSTER_ACTION) are allowed only on the brokers' own
    listeners, if there are other listeners. Kafka accepts them on all listeners.

    ``broker_listeners``: the names of the inter-broker and the control-plane listener.
    """

    has_rules = False

    def __init__(self, broker_listeners: Collection[str]) -> None:
        self._broker_listeners = frozenset(broker_listeners)

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return operation is not Operation.CLUSTER_ACTION or context.listener_name in self._broker_listeners

    may = authorize

    def may_any(self, context: RequestContext, operation: Operation, resource_type: str) -> bool:
        return True

    def visible_topics(self, context: RequestContext, names: Sequence[str]) -> Iterable[str]:
        return names


def authorized_operations(authorizer: Authorizer, context: RequestContext, resource: Resource) -> int:
    """The operations that are permitted, one bit each (KIP-430)."""
    supported = _SUPPORTED_OPERATIONS[resource.type]
    return sum(1 << operation for operation in supported if authorizer.may(context, operation, resource))


def cluster_operations(authorizer: Authorizer, context: RequestContext) -> int:
    """Like ``authorized_operations``, for the cluster; 0 without permission to describe it.

    Source: KafkaApis.handleTopicMetadataRequest, AuthHelper.computeDescribeClusterResponse@3.9.
    """
    if not authorizer.may(context, Operation.DESCRIBE, CLUSTER):
        return 0
    return authorized_operations(authorizer, context, CLUSTER)
