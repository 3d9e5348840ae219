"""``/kafka-acl-changes/acl_changes_N`` and ``/kafka-acl-extended-changes/acl_changes_N``: patterns with changed ACLs.

    TOPIC:t1                                                                          literal, plain text
    {"version":1,"resourceType":"TOPIC","name":"pre-","patternType":"PREFIXED"}       prefixed

A literal notification is split at its first colon: ``USER:User:bob``. Source: LiteralAclChangeStore,
ExtendedAclChangeStore, ExtendedAclChangeEvent, in ZkData.scala and ExtendedAclChangeEvent.scala@3.9.
"""

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import json_codec
from kafka_zk.registry.znodes.acl import is_possible
from kafka_zk.security.acl import Pattern, PatternType, ResourceType

PARENTS = {PatternType.LITERAL: "/kafka-acl-changes", PatternType.PREFIXED: "/kafka-acl-extended-changes"}
PREFIX = "acl_changes_"


def encode(pattern: Pattern) -> bytes:
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{pattern.resource_type.name}:{pattern.name}".encode()
    return json_codec.encode(
        {
            "version": 1,
            "resourceType": pattern.resource_type.name,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def decode(path: str, data: bytes | None) -> Pattern:
    """The pattern in a notification. Raises InvalidZnode."""
    if path.startswith(PARENTS[PatternType.LITERAL] + "/"):
        resource_type, separator, name = (data or b"").decode(errors="replace").partition(":")
        pattern_type = PatternType.LITERAL.name if separator else ""
    else:
        document = json_codec.decode_object(path, data)
        resource_type = json_codec.text(path, document, "resourceType")
        name = json_codec.text(path, document, "name")
        pattern_type = json_codec.text(path, document, "patternType")
    try:
        pattern = Pattern(ResourceType[resource_type.upper()], name, PatternType[pattern_type.upper()])
    except KeyError:
        raise InvalidZnode(f"{path}: {json_codec.shown(data)} names no resource") from None
    if pattern.pattern_type not in PARENTS or pattern.resource_type is ResourceType.ANY or not is_possible(pattern):
        raise InvalidZnode(f"{path}: {json_codec.shown(data)} names no resource that can have ACLs")
    return pattern
