"""Decisions by ACLs; many are compared with a plain reading of AclAuthorizer@3.9 that takes no shortcut."""

import random

import pytest

from kafka_zk.broker.security.acl_rules import AclRules
from kafka_zk.security.acl import (
    IMPLIED,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

ALICE, HOST = "User:alice", "10.0.0.1"
TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


def rules(*rows: tuple[str, PatternType, Acl], **keywords: bool) -> AclRules:
    made = AclRules({"User:admin"}, **keywords)
    grouped: dict[Pattern, set[Acl]] = {}
    for name, pattern_type, acl in rows:
        grouped.setdefault(Pattern(TOPIC, name, pattern_type), set()).add(acl)
    for pattern, acls in grouped.items():
        made.put(pattern, frozenset(acls))
    return made


def acl(operation: Operation, permission: Permission = ALLOW, principal: str = ALICE, host: str = "*") -> Acl:
    return Acl(principal, host, operation, permission)


def may(made: AclRules, operation: Operation, name: str = "pre-t", principal: str = ALICE, host: str = HOST) -> bool:
    """The explanation always agrees with the decision."""
    decided = made.allows(principal, host, operation, "Topic", name)
    assert made.explain(principal, host, operation, TOPIC, name).is_allowed is decided
    return decided


def test_acls_that_cannot_be_taken_in_leave_those_before_in_force() -> None:
    """A DENY that vanished would grant access."""
    made = rules(("*", LITERAL, acl(READ)), ("pre-t", LITERAL, acl(READ, DENY)))
    broken = Acl(ALICE, 7, READ, ALLOW)  # type: ignore[arg-type]
    with pytest.raises((TypeError, AttributeError, ValueError)):
        made.put(Pattern(TOPIC, "pre-t", LITERAL), frozenset([broken]))
    assert not may(made, READ) and may(made, READ, "t")


@pytest.mark.parametrize(
    "row",
    [
        ("pre-t", LITERAL, acl(READ)),
        ("*", LITERAL, acl(READ)),
        ("pre-", PREFIXED, acl(READ)),
        ("pre-t", PREFIXED, acl(READ)),
        ("pre-t", LITERAL, acl(ALL)),
        ("pre-t", LITERAL, acl(READ, principal="User:*")),
        ("pre-t", LITERAL, acl(READ, host=HOST)),
    ],
)
def test_what_applies_allows(row: tuple[str, PatternType, Acl]) -> None:
    made = rules(row)
    assert may(made, READ)
    assert may(made, DESCRIBE), "Read implies Describe"
    name, pattern_type, allowing = row
    denying = allowing._replace(permission=DENY)
    assert not may(rules(row, (name, pattern_type, denying)), READ), "a denial wins"
    assert not may(rules(("pre-t", LITERAL, allowing), (name, pattern_type, denying)), READ)


@pytest.mark.parametrize(
    "row",
    [
        ("pre-t2", LITERAL, acl(READ)),
        ("pre", LITERAL, acl(READ)),
        ("pre-t2", PREFIXED, acl(READ)),
        ("*", PREFIXED, acl(READ)),
        ("pre-t", LITERAL, acl(READ, principal="User:bob")),
        ("pre-t", LITERAL, acl(READ, principal="Group:*")),
        ("pre-t", LITERAL, acl(READ, principal="User:Alice")),
        ("pre-t", LITERAL, acl(READ, host="10.0.0.2")),
        ("pre-t", LITERAL, acl(DESCRIBE)),
        ("pre-t", LITERAL, acl(WRITE)),
    ],
)
def test_what_does_not_apply_allows_nothing(row: tuple[str, PatternType, Acl]) -> None:
    assert not may(rules(row), READ)
    denying = row[2]._replace(permission=DENY)
    assert may(rules(("pre-t", LITERAL, acl(READ)), (row[0], row[1], denying)), READ), "it denies nothing either"


def test_a_denial_of_describe_is_none_of_read() -> None:
    """Implied operations count only for ACLs that allow."""
    made = rules(("t", LITERAL, acl(READ)), ("t", LITERAL, acl(DESCRIBE, DENY)))
    assert may(made, READ, "t") and not may(made, DESCRIBE, "t")
    made = rules(("t", LITERAL, acl(DESCRIBE)), ("t", LITERAL, acl(READ, DENY)))
    assert may(made, DESCRIBE, "t")


def test_super_users_and_resources_without_acls() -> None:
    made = rules(("t", LITERAL, acl(ALL, DENY, "User:*")), allow_if_none=True)
    assert may(made, READ, "t", "User:admin")
    assert not may(made, READ, "t") and may(made, READ, "u")
    assert not may(rules(), READ, "u"), "without ACLs access is denied by default"
    made.put(Pattern(TOPIC, "u", PREFIXED), frozenset([acl(READ, principal="User:bob")]))
    assert not may(made, READ, "u"), "the topic has an ACL now, of another user"


def test_acls_that_are_not_known_deny_what_they_are_for() -> None:
    """The ACLs may contain denials. Super users keep access so that they can repair the ACLs."""
    made = rules(("*", LITERAL, acl(ALL)), allow_if_none=True)
    broken = Pattern(TOPIC, "pre-", PREFIXED)
    made.put(broken, frozenset(), "not JSON")
    assert not may(made, READ, "pre-t") and may(made, READ, "t")
    assert may(made, READ, "pre-t", "User:admin")
    assert "not JSON" in made.explain(ALICE, HOST, READ, TOPIC, "pre-t").text
    made.put(broken, frozenset())
    assert may(made, READ, "pre-t") and not made.unknown


def test_an_explanation_names_the_acl_and_the_nearest_pattern() -> None:
    made = rules(("*", LITERAL, acl(WRITE)), ("pre-", PREFIXED, acl(READ)), ("pre-t", PREFIXED, acl(READ)))
    assert str(made.explain(ALICE, HOST, READ, TOPIC, "pre-t1")).endswith(" of Topic:PREFIXED:pre-t")
    assert str(made.explain(ALICE, HOST, WRITE, TOPIC, "pre-t1")).endswith(" of Topic:LITERAL:*")
    told = str(made.explain("User:bob", HOST, READ, TOPIC, "pre-t1"))
    assert told == "no ACL of Topic:LITERAL:*, Topic:PREFIXED:pre-t, Topic:PREFIXED:pre- allows it"
    assert str(made.explain("User:bob", HOST, READ, ResourceType.GROUP, "g")) == "no ACL applies to it"


def test_a_change_gives_a_new_generation_and_leaves_nothing_behind() -> None:
    made = rules()
    pattern = Pattern(TOPIC, "t", PREFIXED)
    generations = [made.generation]
    for acls in ([acl(READ)], [acl(WRITE)], [acl(WRITE)], []):
        made.put(pattern, frozenset(acls))
        generations.append(made.generation)
    assert generations == [0, 1, 2, 2, 3]
    assert not made.acls and not may(made, WRITE, "t")
    made.put(pattern, frozenset([acl(READ)]))
    made.keep_only([])
    assert not made.acls and not may(made, READ, "t")


def _applying(made: AclRules, name: str) -> list[Acl]:
    return [each for pattern, acls in made.acls.items() if pattern.matches(TOPIC, name) for each in acls]


def _matches(acls: list[Acl], principal: str, host: str, operations: list[Operation], permission: Permission) -> bool:
    return any(
        each.permission is permission
        and each.principal in (principal, "User:*")
        and each.host in (host, "*")
        and (each.operation in operations or each.operation is ALL)
        for each in acls
    )


@pytest.mark.parametrize("seed", range(20))
def test_decisions_are_those_of_a_plain_reading(seed: int) -> None:
    """Patterns are added, changed and removed."""
    chosen = random.Random(seed)
    operations = [READ, WRITE, DESCRIBE, Operation.ALTER, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS, ALL]
    principals, hosts, names = [ALICE, "User:bob", "User:*"], [HOST, "10.0.0.2", "*"], ["a", "ab", "abc", "b", "*"]
    made = AclRules(allow_if_none=seed % 2 == 0)
    choose = chosen.choice
    for _ in range(200):
        acls = frozenset(
            Acl(choose(principals), choose(hosts), choose(operations), choose([ALLOW, DENY]))
            for _ in range(chosen.randrange(3))
        )
        made.put(Pattern(TOPIC, chosen.choice(names), chosen.choice([LITERAL, PREFIXED])), acls)
        principal, host, name = chosen.choice(principals[:2]), chosen.choice(hosts[:2]), chosen.choice(names[:4])
        operation = chosen.choice(operations[:-1])
        applying = _applying(made, name)
        if not applying:
            expected = seed % 2 == 0
        elif _matches(applying, principal, host, [operation], DENY):
            expected = False
        else:
            implying = [operation, *IMPLIED.get(operation, ())]
            expected = _matches(applying, principal, host, implying, ALLOW)
        assert may(made, operation, name, principal, host) is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], False),
        ([("t", LITERAL, acl(WRITE))], True),
        ([("p", PREFIXED, acl(WRITE))], True),
        ([("t", LITERAL, acl(READ))], False),
        ([("t", LITERAL, acl(WRITE, host="10.0.0.2"))], False),
        ([("t", LITERAL, acl(WRITE, principal="User:*"))], True),
        ([("t", LITERAL, acl(WRITE)), ("t", LITERAL, acl(WRITE, DENY))], False),
        ([("t", LITERAL, acl(WRITE)), ("t", LITERAL, acl(WRITE, DENY, "User:*"))], False),
        ([("t", LITERAL, acl(WRITE)), ("u", LITERAL, acl(WRITE, DENY))], True),
        ([("te", LITERAL, acl(WRITE)), ("t", PREFIXED, acl(WRITE, DENY))], False),
        ([("te", PREFIXED, acl(WRITE)), ("t", PREFIXED, acl(ALL, DENY))], False),
        ([("t", PREFIXED, acl(WRITE)), ("te", PREFIXED, acl(ALL, DENY))], True),
        ([("t", PREFIXED, acl(WRITE)), ("t", LITERAL, acl(ALL, DENY))], True),
        ([("*", LITERAL, acl(WRITE)), ("t", PREFIXED, acl(ALL, DENY))], True),
        ([("t", LITERAL, acl(WRITE)), ("*", LITERAL, acl(ALL, DENY))], False),
    ],
)
def test_whether_there_is_a_topic_to_write_to(rows: list[tuple[str, PatternType, Acl]], expected: bool) -> None:
    """Source: AuthorizerInterfaceDefaultTest, BaseAuthorizerTest.testAuthorizeByResourceType*@3.9."""
    made = rules(*rows)
    assert made.allows_any(ALICE, HOST, WRITE, "Topic") is expected
    assert made.allows_any("User:admin", HOST, WRITE, "Topic")
    denies_all = ("*", LITERAL, acl(ALL, DENY))
    assert rules(*rows, allow_if_none=True).allows_any(ALICE, HOST, WRITE, "Topic") is (denies_all not in rows)


def test_a_decision_does_not_look_at_the_acls_of_others() -> None:
    """One principal has two of 20,000 patterns: a decision costs no more than with two patterns in total."""
    made = rules(("pre-", PREFIXED, acl(READ)), ("t", LITERAL, acl(READ)))
    for number in range(10_000):
        other = frozenset([acl(READ, principal="User:bob")])
        made.put(Pattern(TOPIC, f"other-{number}-", PREFIXED), other)
        made.put(Pattern(TOPIC, f"other-{number}", LITERAL), other)
    mine = made._by_principal["Topic"][ALICE]
    assert len(list(mine.rules_of("pre-t"))) == 1 and len(mine.literal) + len(mine.prefixed) == 2
    assert made.allows(ALICE, HOST, READ, "Topic", "pre-t")


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),  # the principal, as it appears in Kafka's log of denials
        ("2001:DB8::1", "2001:db8:0:0:0:0:0:1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
    ],
)
def test_an_address_counts_however_it_is_written(written: str, host: str) -> None:
    made = rules(("pre-t", LITERAL, acl(READ)), ("pre-", PREFIXED, acl(READ, DENY, host=written)))
    assert not may(made, READ, host=host) and may(made, READ, host="10.0.0.2")
    allowed = rules(("pre-t", LITERAL, acl(READ, host=written)))
    assert may(allowed, READ, host=host) and not may(allowed, READ, host="10.0.0.2")
    assert allowed.explain(ALICE, written, READ, TOPIC, "pre-t").is_allowed


def test_a_host_that_is_no_address_is_none(written: str = "one:two") -> None:
    assert not may(rules(("pre-t", LITERAL, acl(READ, host=written))), READ)
