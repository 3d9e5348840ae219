"""The announcements of changed ACLs, as a broker of Apache Kafka 3.9.1 writes them."""

import pytest

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import acl_change
from kafka_zk.security.acl import Pattern, PatternType, ResourceType

LITERAL, PREFIXED = (acl_change.PARENTS[each] + "/acl_changes_0000000001" for each in acl_change.PARENTS)


@pytest.mark.parametrize(
    ("path", "data", "pattern"),
    [
        (LITERAL, b"TOPIC:t1", Pattern(ResourceType.TOPIC, "t1", PatternType.LITERAL)),
        (LITERAL, b"USER:User:bob", Pattern(ResourceType.USER, "User:bob", PatternType.LITERAL)),
        (LITERAL, b"DELEGATION_TOKEN:*", Pattern(ResourceType.DELEGATION_TOKEN, "*", PatternType.LITERAL)),
        (
            PREFIXED,
            b'{"version":1,"resourceType":"TOPIC","name":"pre-","patternType":"PREFIXED"}',
            Pattern(ResourceType.TOPIC, "pre-", PatternType.PREFIXED),
        ),
    ],
)
def test_kafkas_announcements_are_read_and_written_alike(path: str, data: bytes, pattern: Pattern) -> None:
    assert acl_change.decode(path, data) == pattern
    assert acl_change.encode(pattern) == data


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (LITERAL, None),
        (LITERAL, b"TOPIC"),
        (LITERAL, b"THING:t"),
        (LITERAL, b"ANY:t"),
        (LITERAL, b"TOPIC:a/../../b"),
        (LITERAL, b"TOPIC:"),
        (LITERAL, b"\xff:t"),
        (PREFIXED, b"TOPIC:t"),
        (PREFIXED, b'{"version":1,"resourceType":"TOPIC","name":"pre-","patternType":"MATCH"}'),
        (PREFIXED, b'{"version":1,"resourceType":"TOPIC","name":1,"patternType":"PREFIXED"}'),
    ],
)
def test_what_names_no_resource_is_invalid(path: str, data: bytes | None) -> None:
    with pytest.raises(InvalidZnode, match="acl_changes"):
        acl_change.decode(path, data)
