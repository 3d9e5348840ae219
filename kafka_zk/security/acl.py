"""ACLs: numbers as in the protocol, names as in znodes and tools.

Source: ResourceType.java, PatternType.java, AclOperation.java, AclPermissionType.java, SecurityUtils.java@3.9.
"""

import enum
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

CLUSTER_NAME = "kafka-cluster"
WILDCARD = "*"
"""As a literal name: all resources of the type. As a host: all hosts."""

WILDCARD_PRINCIPAL = "User:*"


class _Named(enum.IntEnum):
    @property
    def label(self) -> str:
        """The name in znodes and logs, for example ``TransactionalId`` for TRANSACTIONAL_ID."""
        return _camel_case(self.name)


E = TypeVar("E", bound=_Named)


class ResourceType(_Named):
    """ANY is for filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Named):
    """ANY and MATCH are for filters only; MATCH selects the patterns that apply to a resource of the given name."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_Named):
    """ANY is for filters only."""

    ANY = 1
    ALL = 2
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


class Permission(_Named):
    """ANY is for filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Pattern(NamedTuple):
    """The resources of an ACL, by LITERAL or PREFIXED name."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType

    def __str__(self) -> str:
        return f"{self.resource_type.label}:{self.pattern_type.name}:{self.name}"

    def matches(self, resource_type: ResourceType, name: str) -> bool:
        if resource_type is not self.resource_type:
            return False
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class Acl(NamedTuple):
    """Allows or denies one operation to a principal (``User:alice``) from a host."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return f"{self.permission.label} {self.principal} {self.operation.label} from {self.host}"


Acls = frozenset[Acl]


class AclFilter(NamedTuple):
    """Selects ACLs to list or to remove; None and ANY select all. Source: AclBindingFilter.java@3.9."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def takes_pattern(self, pattern: Pattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return pattern.matches(pattern.resource_type, self.name)
        return self.name == pattern.name

    def takes(self, acl: Acl) -> bool:
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )


IMPLIED: Mapping[Operation, Sequence[Operation]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
"""Operation -> those that imply it if allowed. Source: AclAuthorizer.matchingAclExists@3.9."""

SUPPORTED_OPERATIONS: Mapping[ResourceType, Sequence[Operation]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DESCRIBE, Operation.DELETE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
        Operation.ALTER,
        Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations of each resource type. Source: AclEntry.supportedOperations@3.9."""


def named(kind: type[E], name: str) -> E | None:
    """Find a member by its name in znodes (``ClusterAction``), ignoring case; None if there is no such member."""
    return _by_label(kind).get(name.lower())


@functools.cache
def _by_label(kind: type[E]) -> dict[str, E]:
    return {each.label.lower(): each for each in kind}


@functools.cache
def _camel_case(name: str) -> str:
    return sys.intern("".join(word.capitalize() for word in name.split("_")))


class InvalidAcl(Exception):
    """The message is one sentence."""


def check(pattern: Pattern, acl: Acl) -> None:
    """Raise InvalidAcl, with Kafka's message if there is one. Source: AclApis.handleCreateAcls@3.9."""
    if pattern.resource_type is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        raise InvalidAcl(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not pattern.name:
        raise InvalidAcl("Invalid empty resource name")
    if pattern.resource_type is ResourceType.ANY or pattern.pattern_type not in _STORED_PATTERN_TYPES:
        raise InvalidAcl("An ACL needs a type of resource, and a pattern that is literal or prefixed")
    if acl.operation is Operation.ANY or acl.permission is Permission.ANY:
        raise InvalidAcl("An ACL needs an operation and a permission; ANY is for filters only")
    kind, separator, name = acl.principal.partition(":")
    if not (kind and separator and name):
        raise InvalidAcl("A principal has the form type:name, for example User:alice")
    if not acl.host:
        raise InvalidAcl("An ACL needs a host; * stands for all")


_STORED_PATTERN_TYPES = (PatternType.LITERAL, PatternType.PREFIXED)
