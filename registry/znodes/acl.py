"""``/kafka-acl/<Type>/<name>`` and ``/kafka-acl-extended/prefixed/<Type>/<name>``: a resource pattern's ACLs.

    {"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"}]}

Names are not encoded, so they contain no ``/``. Without ACLs, there is no znode, or its data is empty. One entry that
cannot be parsed invalidates the znode, since it may deny; in Kafka, such an entry never matches.

Source: LiteralAclStore, ExtendedAclStore, ResourceZNode in ZkData.scala, AclEntry.scala@3.9; seen on a 3.9.1 broker.
"""

import functools
from collections.abc import Iterable
from typing import Any

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec
from kafka_zk.registry.znodes.consumers import is_znode_name
from kafka_zk.security.acl import Acl, Acls, Operation, Pattern, PatternType, Permission, ResourceType, named

STORED_TYPES = tuple(each for each in ResourceType if each is not ResourceType.ANY)
ROOTS = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
VERSION = 1


def type_path(pattern_type: PatternType, resource_type: ResourceType) -> str:
    """The parent of the znodes of this type."""
    return f"{ROOTS[pattern_type]}/{resource_type.label}"


def pattern_path(pattern: Pattern) -> str:
    return f"{type_path(pattern.pattern_type, pattern.resource_type)}/{pattern.name}"


def is_possible(pattern: Pattern) -> bool:
    """True if the pattern can have a znode."""
    return "/" not in pattern.name and is_znode_name(pattern.name)


def encode(acls: Iterable[Acl]) -> bytes:
    """Encode the ACLs in a fixed order."""
    entries = [
        {
            "principal": acl.principal,
            "permissionType": acl.permission.label,
            "operation": acl.operation.label,
            "host": acl.host,
        }
        for acl in sorted(acls)
    ]
    return json_codec.encode({"version": VERSION, "acls": entries})


def decode(path: str, data: bytes | None) -> Acls:
    """Raises InvalidZnode."""
    if not data:
        return frozenset()
    document = json_codec.decode_object(path, data)
    if json_codec.version(path, document) != VERSION:
        raise InvalidZnode(f"{path}: version {json_codec.shown(document['version'])} is not known")
    return frozenset(_acl(path, entry) for entry in json_codec.object_list(path, document, "acls"))


def _acl(path: str, entry: dict[str, Any]) -> Acl:
    try:
        return _shared_acl(entry["principal"], entry["host"], entry["operation"], entry["permissionType"])
    except (KeyError, TypeError, AttributeError, ValueError):
        raise InvalidZnode(f"{path}: an ACL that is not understood: {json_codec.shown(entry)}") from None


@functools.lru_cache(maxsize=10_000)
def _shared_acl(principal: str, host: str, operation: str, permission: str) -> Acl:
    """One object for equal entries of many resources. Raises: ValueError; TypeError and AttributeError for values other
    than strings."""
    kind, separator, name = principal.partition(":")
    known_operation, known_permission = named(Operation, operation), named(Permission, permission)
    if known_operation is None or known_permission is None:
        raise ValueError(operation, permission)
    if known_operation is Operation.ANY or known_permission is Permission.ANY:
        raise ValueError(operation, permission)
    if not (kind and separator and name and isinstance(host, str) and host):
        raise ValueError(principal, host)
    return Acl(principal, host, known_operation, known_permission)
