"""ACLs in a cluster with brokers of both kinds: each applies the other's changes, and Kafka's kafka-acls shows the same
through each broker and in ZooKeeper.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.security.acl import Acl, Operation, Pattern, PatternType, Permission, ResourceType
from tests import acl_rows
from tests.acl_rows import REQUESTS, Request
from tests.peers import jars, targets
from tests.peers.authorization.authorized_kafka import PASSWORD, USER, AuthorizedBroker, ask, authorized_brokers
from tests.peers.clients.line_process import LineProcess
from tests.peers.processes import wait_until

pytestmark = pytest.mark.peers

_TOOL = "kafka.admin.AclCommand"
_KINDS = (targets.KAFKA_ZK, targets.KAFKA_ZK, targets.APACHE_KAFKA)
_TIMEOUT_S = 120
"""Each run of kafka-acls makes new connections, which takes long on a busy machine."""

_ENTRIES = 200


@pytest.fixture(scope="module")
def brokers(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[AuthorizedBroker]]:
    """One cluster with two brokers of ours and one of Apache Kafka's."""
    folder = tmp_path_factory.mktemp("mixed-acls")
    with authorized_brokers(peer_zookeeper, folder, _KINDS, ["mixed-acls"] * len(_KINDS)) as started:
        yield started


@pytest.fixture(scope="module")
def tool() -> Iterator[LineProcess]:
    """One JVM for all runs of kafka-acls."""
    process = LineProcess(jars.ORACLE_VERSION, "ToolRunner", _TIMEOUT_S)
    yield process
    process.close()


def run(tool: LineProcess, *arguments: str) -> list[str]:
    """The sorted and stripped lines of kafka-acls, which iterates over hash tables and puts blanks between the entries
    of a resource.
    """
    answer = json.loads(tool.ask([json.dumps({"main": _TOOL, "arguments": arguments})]))
    assert answer["code"] == 0, answer
    return sorted(line.strip() for line in answer["stdout"].splitlines() if line.strip())


def may_describe(broker: AuthorizedBroker, topic: str) -> bool:
    """Whether the user may describe a topic, which does not need to exist."""
    wanted = Request(ApiKey.METADATA, 9, {"topics": [{"name": topic}], "allow_auto_topic_creation": False})
    (code,) = acl_rows.codes(ask(broker.client_port, wanted, (USER, PASSWORD)))
    assert code in (3, 29)
    return code == 3


@pytest.mark.parametrize("pattern_type", [PatternType.LITERAL, PatternType.PREFIXED])
@pytest.mark.parametrize("writer", range(len(_KINDS)))
def test_a_change_through_one_broker_counts_at_all(
    brokers: list[AuthorizedBroker], writer: int, pattern_type: PatternType
) -> None:
    topic = f"t-{writer}-{pattern_type.name}"
    pattern = Pattern(ResourceType.TOPIC, topic[:-1] if pattern_type is PatternType.PREFIXED else topic, pattern_type)
    acl = Acl(acl_rows.USER, "*", Operation.DESCRIBE, Permission.ALLOW)
    assert not any(may_describe(broker, topic) for broker in brokers)
    brokers[writer].set_acls({pattern: frozenset([acl])})
    assert may_describe(brokers[writer], topic), "a broker that has responded does not apply the change"
    wait_until(lambda: all(may_describe(broker, topic) for broker in brokers), 5, "the ACL at all brokers")
    brokers[writer].set_acls({})
    assert not may_describe(brokers[writer], topic)
    wait_until(lambda: not any(may_describe(broker, topic) for broker in brokers), 5, "its end at all brokers")


def test_two_brokers_that_add_to_one_topic_lose_nothing(brokers: list[AuthorizedBroker]) -> None:
    """Each broker adds 200 entries in as many requests: KAFKA-3328."""

    def add_all(number: int) -> None:
        for entry in range(_ENTRIES):
            creation = {
                "resource_type": 2, "resource_name": "busy", "resource_pattern_type": 3,
                "principal": f"User:{number}-{entry}", "host": "*", "operation": 3, "permission_type": 3,
            }  # fmt: skip
            created = ask(brokers[number].port, Request(ApiKey.CREATE_ACLS, 3, {"creations": [creation]}))
            assert acl_rows.codes(created) == {0}

    started = time.monotonic()
    with ThreadPoolExecutor() as pool:
        list(pool.map(add_all, range(2)))
    print(f"{2 * _ENTRIES} entries in {time.monotonic() - started:.1f} s")
    wanted = Request(ApiKey.DESCRIBE_ACLS, 3, {**REQUESTS["DescribeAcls"].fields, "resource_name_filter": "busy"})
    for broker in brokers:
        wait_until(
            lambda broker=broker: [  # type: ignore[misc]
                len(each.acls) for each in ask(broker.port, wanted).resources
            ] == [2 * _ENTRIES],
            _TIMEOUT_S,
            f"all entries at {broker.name}",
        )  # fmt: skip
    brokers[0].set_acls({})


_ADDED: Sequence[Sequence[str]] = (
    ("--add", "--allow-principal", "User:bob", "--operation", "Read", "--operation", "Write", "--topic", "t"),
    ("--add", "--deny-principal", "User:*", "--deny-host", "10.9.8.7", "--operation", "All", "--topic", "*"),
    ("--add", "--allow-principal", "User:bob", "--producer", "--topic", "pre-", "--resource-pattern-type", "prefixed"),
    ("--add", "--allow-principal", "User:bob", "--consumer", "--topic", "t", "--group", "g"),
    ("--add", "--allow-principal", "User:bob", "--operation", "All", "--cluster"),
    ("--add", "--allow-principal", "User:bob", "--operation", "Write", "--transactional-id", "x y"),
    ("--add", "--allow-principal", "User:bob", "--operation", "Describe", "--delegation-token", "token"),
    ("--add", "--allow-principal", "User:bob", "--operation", "CreateTokens", "--user-principal", "User:owner"),
)
_LISTED: Sequence[Sequence[str]] = (
    ("--list",),
    ("--list", "--topic", "pre-fixed", "--resource-pattern-type", "match"),
    ("--list", "--topic", "t", "--resource-pattern-type", "any"),
    ("--list", "--principal", "User:bob"),
    ("--list", "--cluster"),
)


def test_kafka_acls_says_the_same_everywhere(
    brokers: list[AuthorizedBroker], tool: LineProcess, tmp_path: Path
) -> None:
    """ACLs are added and removed through our broker, and listed through each broker and in ZooKeeper."""
    patient = tmp_path / "client.properties"
    patient.write_text(f"request.timeout.ms={_TIMEOUT_S * 1000}\ndefault.api.timeout.ms={_TIMEOUT_S * 1000}\n")

    def through(broker: AuthorizedBroker) -> Sequence[str]:
        return ("--bootstrap-server", f"127.0.0.1:{broker.port}", "--command-config", str(patient))

    zookeeper = ("--authorizer-properties", f"zookeeper.connect={brokers[0].zookeeper}")
    for arguments in _ADDED:
        run(tool, *through(brokers[0]), *arguments)
    for arguments in _LISTED:
        wanted = run(tool, *zookeeper, *arguments)
        assert len(wanted) > 1
        for broker in brokers:
            wait_until(
                lambda broker=broker, arguments=arguments, wanted=wanted: (  # type: ignore[misc]
                    run(tool, *through(broker), *arguments) == wanted
                ),
                _TIMEOUT_S,
                f"{arguments} of {broker.name}",
            )
    run(tool, *zookeeper, "--add", "--allow-principal", "User:z", "--operation", "Read", "--topic", "by-zookeeper")
    by_zookeeper = ("--list", "--topic", "by-zookeeper")
    for broker in brokers:
        wait_until(
            lambda broker=broker: len(run(tool, *through(broker), *by_zookeeper)) > 1,  # type: ignore[misc]
            _TIMEOUT_S,
            broker.name,
        )
    for arguments in _ADDED:
        run(tool, *through(brokers[1]), "--remove", "--force", *arguments[1:])
    wait_until(lambda: len(run(tool, *zookeeper, "--list")) == 2, _TIMEOUT_S, "the end of all others")
    brokers[0].set_acls({})
