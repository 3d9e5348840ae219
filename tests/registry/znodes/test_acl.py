"""The znodes of ACLs, as a broker of Apache Kafka 3.9.1 writes them."""

import pytest

from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import acl as znodes
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType

WRITTEN_BY_KAFKA = (
    b'{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Describe"},'
    b'{"principal":"User:*","permissionType":"Deny","host":"10.9.8.7","operation":"All"}],"version":1}'
)
ACLS = {
    Acl("User:alice", "*", Operation.DESCRIBE, Permission.ALLOW),
    Acl("User:*", "10.9.8.7", Operation.ALL, Permission.DENY),
}


def test_what_kafka_writes_is_read_and_what_is_written_is_read_again() -> None:
    assert znodes.decode("/p", WRITTEN_BY_KAFKA) == ACLS
    assert znodes.decode("/p", znodes.encode(ACLS)) == ACLS
    for operation in Operation:
        if operation is not Operation.ANY:
            one = {Acl("User:a", "*", operation, Permission.ALLOW)}
            assert znodes.decode("/p", znodes.encode(one)) == one


@pytest.mark.parametrize("data", [None, b"", b'{"version":1,"acls":[]}'])
def test_an_empty_znode_has_no_acls(data: bytes | None) -> None:
    assert znodes.decode("/p", data) == frozenset()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"version":1', b'"version":2'),
        (b'"version":1', b'"version":"x"'),
        (b'"Describe"', b'"TwoPhaseCommit"'),
        (b'"Describe"', b'"Any"'),
        (b'"Describe"', b"8"),
        (b'"Describe"', b'["Read"]'),
        (b'"Deny"', b'"Forbid"'),
        (b'"Deny"', b"null"),
        (b'"host":"*",', b""),
        (b'"host":"*",', b'"host":{},'),
        (b'"User:alice"', b'"alice"'),
        (b'"User:alice"', b"1"),
        (b"[{", b"{"),
        (b"{", b""),
        (WRITTEN_BY_KAFKA, b"\xff"),
        (WRITTEN_BY_KAFKA, b"[]"),
    ],
)
def test_one_entry_that_is_not_understood_makes_the_whole_invalid(before: bytes, after: bytes) -> None:
    """The entry may deny access."""
    with pytest.raises(InvalidZnode, match="/p"):
        znodes.decode("/p", WRITTEN_BY_KAFKA.replace(before, after, 1))


def test_paths_and_names() -> None:
    """Names in paths are not encoded."""
    literal = Pattern(ResourceType.USER, "User:bob", PatternType.LITERAL)
    assert znodes.pattern_path(literal) == "/kafka-acl/User/User:bob"
    prefixed = Pattern(ResourceType.TRANSACTIONAL_ID, "x-", PatternType.PREFIXED)
    assert znodes.pattern_path(prefixed) == "/kafka-acl-extended/prefixed/TransactionalId/x-"
    assert znodes.is_possible(literal) and znodes.is_possible(literal._replace(name="*"))
    for name in ("", "a/b", "..", ".", "a\0b", "a\x07"):
        assert not znodes.is_possible(literal._replace(name=name)), name
