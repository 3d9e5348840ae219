"""``kafka-zk acls``: its requests and its output; on real clusters: test_authorized_cluster.py."""

import contextlib
import json
from collections.abc import Iterator, Mapping

import pytest
from click.testing import CliRunner

from kafka_zk.cli import acls
from kafka_zk.cli.acl_access import Found
from kafka_zk.security.acl import Acl, AclFilter, Acls, Operation, Pattern, PatternType, Permission, ResourceType

TOPIC = Pattern(ResourceType.TOPIC, "t", PatternType.LITERAL)
READ = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)


class Access:
    """Keeps ACLs in memory."""

    def __init__(self) -> None:
        self.acls: dict[Pattern, Acls] = {}
        self.unknown: dict[Pattern, str] = {}

    def find(self, wanted: AclFilter) -> tuple[Found, Mapping[Pattern, str]]:
        patterns = [pattern for pattern in self.acls if wanted.takes_pattern(pattern)]
        return {each: sorted(filter(wanted.takes, self.acls[each])) for each in patterns}, self.unknown

    def add(self, added: Mapping[Pattern, Acls], *, replace_unknown: bool) -> None:
        for pattern, entries in added.items():
            self.acls[pattern] = self.acls.get(pattern, frozenset()) | entries

    def remove(self, wanted: AclFilter) -> Found:
        found = self.find(wanted)[0]
        for pattern, entries in found.items():
            self.acls[pattern] -= frozenset(entries)
        return found


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> Access:
    made = Access()

    @contextlib.contextmanager
    def through(*_: str | None) -> Iterator[Access]:
        yield made

    monkeypatch.setattr(acls, "acl_access", through)
    return made


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(acls.command, arguments)
    assert done.exit_code == code, done.output
    return done.output


def test_acls_are_added_for_each_principal_and_operation(access: Access) -> None:
    run("add", "--topic", "t", "--allow-principal", "User:alice", "--deny-principal", "User:bob",
        "--operation", "read", "--operation", "cluster-action", "--host", "10.0.0.1")  # fmt: skip
    (entries,) = access.acls.values()
    assert {(each.principal, each.operation.label, each.permission.label) for each in entries} == {
        (principal, operation, permission)
        for principal, permission in (("User:alice", "Allow"), ("User:bob", "Deny"))
        for operation in ("Read", "ClusterAction")
    }
    assert {each.host for each in entries} == {"10.0.0.1"} and list(access.acls) == [TOPIC]


@pytest.mark.parametrize(
    ("option", "resource_type", "name"),
    [
        (("--group", "g"), ResourceType.GROUP, "g"),
        (("--cluster",), ResourceType.CLUSTER, "kafka-cluster"),
        (("--transactional-id", "x"), ResourceType.TRANSACTIONAL_ID, "x"),
        (("--delegation-token", "d"), ResourceType.DELEGATION_TOKEN, "d"),
        (("--user-principal", "User:a"), ResourceType.USER, "User:a"),
    ],
)
def test_every_kind_of_resource_has_an_option(
    access: Access, option: tuple[str, ...], resource_type: ResourceType, name: str
) -> None:
    run("add", *option, "--allow-principal", "User:a", "--operation", "all")
    assert list(access.acls) == [Pattern(resource_type, name, PatternType.LITERAL)]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--topic", "t", "--operation", "read"), "--allow-principal or --deny-principal"),
        (("--allow-principal", "User:a", "--operation", "read"), "name one resource"),
        (("--topic", "t", "--group", "g", "--allow-principal", "User:a", "--operation", "read"), "name one resource"),
        (("--topic", "t", "--allow-principal", "alice", "--operation", "read"), "User:alice"),
        (("--topic", "t", "--allow-principal", "User:a", "--operation", "any"), "is not one of All, Read"),
        (("--topic", "t", "--allow-principal", "User:a"), "--operation"),
    ],
)
def test_what_makes_no_acl_is_refused(access: Access, arguments: tuple[str, ...], said: str) -> None:
    assert said in " ".join(run("add", *arguments, code=2).split())
    assert access.acls == {}


def test_acls_are_listed_removed_and_explained(access: Access) -> None:
    access.acls = {TOPIC: frozenset([READ])}
    listed = run("list").splitlines()
    assert listed[1].split() == ["Topic", "t", "literal", "Allow", "User:alice", "Read", "*"]
    explained = run("explain", "--topic", "t", "--principal", "User:alice", "--operation", "describe")
    by = "by the ACL Allow User:alice Read from * of Topic:LITERAL:t"
    assert explained == f"May User:alice Describe Topic t? Yes, {by}.\n"
    run("remove", "--topic", "t", "--principal", "User:bob")
    assert access.acls == {TOPIC: {READ}}
    removed = json.loads(run("remove", "--topic", "t", "--json"))
    assert [row["principal"] for row in removed["acls"]] == ["User:alice"] and access.acls == {TOPIC: frozenset()}
    assert json.loads(run("explain", "--topic", "t", "--principal", "User:alice", "--operation", "read", "--json")) == {
        "allowed": False, "reason": "no ACL applies to it", "by": None
    }  # fmt: skip


def test_what_nobody_understands_is_told(access: Access) -> None:
    access.unknown = {TOPIC: "not JSON"}
    assert "Topic:LITERAL:t (not JSON)" in " ".join(run("list").split())
    explained = run("explain", "--topic", "t", "--principal", "User:alice", "--operation", "read")
    assert "No, its ACLs are not known: not JSON" in explained
