"""Who may do what. Every handler asks; without ``authorizer.class.name`` everyone may do everything, as in Kafka."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from kafka_zk.base.types import new_tuple
from kafka_zk.protocol.request import RequestContext
from kafka_zk.protocol.topic_names import MAX_NAME_LENGTH
from kafka_zk.security.acl import CLUSTER_NAME, SUPPORTED_OPERATIONS, Acl, AclFilter, Acls, Pattern
from kafka_zk.security.acl import Operation as Operation


class Resource(NamedTuple):
    """``type`` is Kafka's: Topic, Group, Cluster, TransactionalId, DelegationToken, User."""

    type: str
    name: str


CLUSTER = Resource("Cluster", CLUSTER_NAME)


def group(name: str) -> Resource:
    return Resource("Group", name)


def transactional_id(name: str) -> Resource:
    return new_tuple(Resource, ("TransactionalId", name))


MOST_TOPICS = 5_000
"""Maximum number of topics whose resources are kept: some 2 MB."""


class _Topics(dict[str, Resource]):
    """By their names. Clients choose the names they ask for, up to 32 KB; no topic has so long a one."""

    def __missing__(self, name: str) -> Resource:
        made = Resource("Topic", name)
        if len(name) <= MAX_NAME_LENGTH:
            if len(self) >= MOST_TOPICS:
                self.clear()
            self[name] = made
        return made


topic: Callable[[str], Resource] = _Topics().__getitem__
"""The resource that is the topic of this name."""


_SUPPORTED_OPERATIONS = {each.label: operations for each, operations in SUPPORTED_OPERATIONS.items()}


class AclStore(Protocol):
    """ACLs that clients may see and change."""

    def described(self, wanted: AclFilter) -> Mapping[Pattern, Sequence[Acl]]:
        """The ACLs that a filter takes, sorted; none of a pattern whose ACLs are not known."""

    async def add(self, pattern: Pattern, added: Acls) -> None:
        """Returns when they are in force here. Raises: RegistryError."""

    async def remove(self, pattern: Pattern, wanted: AclFilter) -> Acls:
        """Those that were removed, when they are so here. Raises: RegistryError."""


class AuthorizerCounts(NamedTuple):
    """For metrics. ``unreadable``: patterns whose ACLs are not known, and which are denied to everyone."""

    denials: int = 0
    patterns: int = 0
    unreadable: int = 0


class Authorizer:
    """What handlers ask. A denial that the client will hear of is one for the log, and ``authorize`` tells it.

    Attributes:
        acls: None if clients cannot change who may do what.
        has_rules: False: it is none, as in a broker without ``authorizer.class.name``.
    """

    acls: AclStore | None = None
    has_rules = True

    @property
    def counts(self) -> AuthorizerCounts:
        return AuthorizerCounts()

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """Whether the principal of ``context`` may do that."""
        raise NotImplementedError

    def may(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        """As ``authorize``, without logging a denial: to choose what to show, or before another permission is asked."""
        return self.authorize(context, operation, resource)

    def may_any(self, context: RequestContext, operation: Operation, resource_type: str) -> bool:
        """Whether there is a resource of that type on which the principal may do that."""
        return False

    def visible_topics(self, context: RequestContext, names: Sequence[str]) -> Iterable[str]:
        """The topics among these that the principal ``may`` describe, in the same order."""
        return (name for name in names if self.may(context, Operation.DESCRIBE, topic(name)))

    async def purge_changes(self, now_ms: int) -> None:
        """Remove old notes of changes from ZooKeeper; ``now_ms``: wall clock. Raises: RegistryError."""

    def close(self) -> None:
        """The broker stops."""


class NoAuthorizer(Authorizer):
    """No authorizer configured: everyone may do everything, but what brokers ask of each other (CLUSTER_ACTION) comes
    through their own listener, where clients have others.

    Kafka accepts it on every listener.

    Args:
        broker_listeners: names of the inter-broker and the control-plane listener.
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
    """The operations on ``resource`` that the principal of ``context`` may carry out, a bit for each (KIP-430)."""
    supported = _SUPPORTED_OPERATIONS[resource.type]
    return sum(1 << operation for operation in supported if authorizer.may(context, operation, resource))


def cluster_operations(authorizer: Authorizer, context: RequestContext) -> int:
    """As ``authorized_operations``, for the cluster: none without the permission to describe it.

    Source: KafkaApis.handleTopicMetadataRequest, AuthHelper.computeDescribeClusterResponse@3.9.
    """
    if not authorizer.may(context, Operation.DESCRIBE, CLUSTER):
        return 0
    return authorized_operations(authorizer, context, CLUSTER)
