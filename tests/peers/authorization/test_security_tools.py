"""Kafka 3.9.1's tools for ACLs, users, quotas and delegation tokens, and the errors of its tools for a client without
ACLs, are the same with a broker of Apache Kafka that uses its AclAuthorizer and with ours.

The administrator uses PLAINTEXT as a super user; alice and bob log in with SASL PLAIN.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.peers import jars, targets
from tests.peers.authorization.authorized_kafka import AuthorizedBroker, authorized_brokers
from tests.peers.targets import Target
from tests.peers.tool_script import CONFIGS, DELETE_RECORDS, GET_OFFSETS, LOG_DIRS, TOPICS, Said, Step, ToolRunner

pytestmark = pytest.mark.peers

_ACLS = "kafka.admin.AclCommand"
_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
_OPTION_OF_LOGIN = {_ELECTION: "--admin.config"}
_USERS: Mapping[str, str] = {"alice": "alice-secret", "bob": "bob-secret"}

_TOKEN_ID = re.compile(r"\b[\w-]{22}\b")
_HMAC = re.compile(r"[\w+/]{86}==")
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_ITERATED = re.compile(r"(salt|stored_key|server_key)=[\w+/]+=*")
_NAMED_REQUEST = re.compile(r"Request Request\(processor=.*\) is not authorized\.")
"""Apache Kafka shows its own object; ours names the resource."""


def _acls(name: str, *arguments: str) -> Step:
    return Step(f"acls-{name}", _ACLS, arguments)


def _added(name: str, *arguments: str) -> Step:
    return _acls(f"add-{name}", "--add", "--allow-principal", "User:bob", *arguments)


def _configs(name: str, *arguments: str) -> Step:
    return Step(f"configs-{name}", CONFIGS, arguments)


def _of_user(name: str, verb: str, *arguments: str, user: str = "carol") -> Step:
    return _configs(name, verb, "--entity-type", "users", "--entity-name", user, *arguments)


_PREFIXED = ("--resource-pattern-type", "prefixed")
_ACL_STEPS = [
    _acls("list-none", "--list"),
    _added("topic", "--operation", "Read", "--operation", "Write", "--topic", "t"),
    _added("topic-again", "--operation", "Read", "--topic", "t"),
    _added("two-topics", "--operation", "Describe", "--topic", "t", "--topic", "u"),
    _added("prefixed", "--operation", "All", "--topic", "pre-", *_PREFIXED),
    _added("prefixed-group", "--operation", "Read", "--group", "g-", *_PREFIXED),
    _added("host", "--allow-host", "10.0.0.1", "--operation", "Read", "--topic", "t"),
    _acls("add-denied", "--add", "--deny-principal", "User:*", "--deny-host", "10.9.8.7", "--operation", "All",
          "--topic", "*"),
    _acls("add-both", "--add", "--allow-principal", "User:a", "--deny-principal", "User:b", "--operation", "Alter",
          "--topic", "both"),
    _added("producer", "--producer", "--topic", "p"),
    _added("idempotent-producer", "--producer", "--idempotent", "--topic", "p", "--transactional-id", "x"),
    _added("consumer", "--consumer", "--topic", "c", "--group", "g"),
    _added("cluster", "--operation", "ClusterAction", "--cluster"),
    _added("transactional-id", "--operation", "Write", "--transactional-id", "x y"),
    _added("delegation-token", "--operation", "Describe", "--delegation-token", "token"),
    _added("user-principal", "--operation", "CreateTokens", "--user-principal", "User:owner"),
    _added("operation-of-another-type", "--operation", "IdempotentWrite", "--topic", "t"),
    _added("unknown-operation", "--operation", "Paint", "--topic", "t"),
    _added("no-resource", "--operation", "Read"),
    _acls("add-no-principal", "--add", "--operation", "Read", "--topic", "t"),
    _acls("add-bad-principal", "--add", "--allow-principal", "bob", "--operation", "Read", "--topic", "t"),
    _added("consumer-without-group", "--consumer", "--topic", "c"),
    _added("match", "--operation", "Read", "--topic", "t", "--resource-pattern-type", "match"),
    _added("slash", "--operation", "Read", "--topic", "a/b"),
    _acls("list", "--list"),
    _acls("list-topic", "--list", "--topic", "t"),
    _acls("list-match", "--list", "--topic", "pre-fixed", "--resource-pattern-type", "match"),
    _acls("list-any", "--list", "--topic", "t", "--resource-pattern-type", "any"),
    _acls("list-prefixed", "--list", "--topic", "pre-", *_PREFIXED),
    _acls("list-group", "--list", "--group", "g"),
    _acls("list-cluster", "--list", "--cluster"),
    _acls("list-principal", "--list", "--principal", "User:bob"),
    _acls("list-principals", "--list", "--principal", "User:a", "--principal", "User:b"),
    _acls("list-principal-of-topic", "--list", "--principal", "User:bob", "--topic", "t"),
    _acls("list-nobody", "--list", "--topic", "nobody"),
    _acls("remove-one", "--remove", "--force", "--allow-principal", "User:bob", "--operation", "Write", "--topic", "t"),
    _acls("remove-missing", "--remove", "--force", "--allow-principal", "User:z", "--operation", "Write", "--topic",
          "t"),
    _acls("remove-of-topic", "--remove", "--force", "--topic", "t"),
    _acls("remove-prefixed", "--remove", "--force", "--topic", "pre-", *_PREFIXED),
    _acls("remove-match", "--remove", "--force", "--group", "g-1", "--resource-pattern-type", "match"),
    _acls("remove-producer", "--remove", "--force", "--allow-principal", "User:bob", "--producer", "--topic", "p"),
    _acls("list-what-is-left", "--list"),
]  # fmt: skip
_SHA_256, _SHA_512 = "SCRAM-SHA-256=[iterations=8192,password=x]", "SCRAM-SHA-512=[password=y]"
_USER_STEPS = [
    _of_user("describe-no-user", "--describe"),
    _of_user("scram-add", "--alter", "--add-config", _SHA_256),
    _of_user("scram-add-another", "--alter", "--add-config", _SHA_512),
    _of_user("scram-and-quota", "--alter", "--add-config", f"{_SHA_256},producer_byte_rate=1024"),
    _of_user("scram-two", "--alter", "--add-config", f"{_SHA_256},{_SHA_512}", user="dave"),
    _of_user("scram-few-iterations", "--alter", "--add-config", "SCRAM-SHA-256=[iterations=100,password=x]"),
    _of_user("scram-many-iterations", "--alter", "--add-config", "SCRAM-SHA-256=[iterations=20000,password=x]"),
    _of_user("scram-no-password", "--alter", "--add-config", "SCRAM-SHA-256=[iterations=4096]"),
    _of_user("scram-unknown", "--alter", "--add-config", "SCRAM-SHA-1=[password=x]"),
    _configs("scram-default", "--alter", "--entity-type", "users", "--entity-default", "--add-config", _SHA_256),
    _of_user("quota-of-user", "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50"),
    _of_user("describe-user", "--describe"),
    _of_user("scram-delete", "--alter", "--delete-config", "SCRAM-SHA-256"),
    _of_user("scram-delete-missing", "--alter", "--delete-config", "SCRAM-SHA-256"),
    _of_user("describe-user-again", "--describe"),
    _configs("describe-users", "--describe", "--entity-type", "users"),
    _of_user("scram-delete-last", "--alter", "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512", user="dave"),
    _configs("describe-users-again", "--describe", "--entity-type", "users"),
]
_QUOTA_STEPS = [
    _configs("short-user", "--alter", "--user", "erin", "--add-config", "consumer_byte_rate=2048"),
    _configs("short-user-defaults", "--alter", "--user-defaults", "--add-config", "consumer_byte_rate=900000000"),
    _configs("short-client", "--alter", "--client", "c 1", "--add-config", "producer_byte_rate=3072"),
    _configs("short-client-defaults", "--alter", "--client-defaults", "--add-config", "controller_mutation_rate=1000"),
    _configs("short-pair", "--alter", "--user", "erin", "--client", "c", "--add-config", "request_percentage=200"),
    _configs("short-ip", "--alter", "--ip", "10.0.0.7", "--add-config", "connection_creation_rate=100"),
    _configs("short-ip-defaults", "--alter", "--ip-defaults", "--add-config", "connection_creation_rate=2000000000"),
    _configs("ip-no-address", "--alter", "--ip", "no address", "--add-config", "connection_creation_rate=1"),
    _configs("quota-of-another-type", "--alter", "--ip", "10.0.0.7", "--add-config", "producer_byte_rate=1"),
    _configs("quota-negative", "--alter", "--client", "c 1", "--add-config", "producer_byte_rate=-5"),
    _configs("quota-no-number", "--alter", "--client", "c 1", "--add-config", "producer_byte_rate=many"),
    _configs("quota-fraction", "--alter", "--client", "c 1", "--add-config", "producer_byte_rate=1.5"),
    _configs("short-describe-user", "--describe", "--user", "erin"),
    _configs("short-describe-user-defaults", "--describe", "--user-defaults"),
    _configs("short-describe-pair", "--describe", "--user", "erin", "--client", "c"),
    _configs("describe-clients-of-user", "--describe", "--entity-type", "users", "--entity-name", "erin",
             "--entity-type", "clients"),
    _configs("short-describe-client", "--describe", "--client", "c 1"),
    _configs("short-describe-client-defaults", "--describe", "--client-defaults"),
    _configs("short-describe-ip", "--describe", "--ip", "10.0.0.7"),
    _configs("short-describe-ip-defaults", "--describe", "--ip-defaults"),
    _configs("describe-ips", "--describe", "--entity-type", "ips"),
    _configs("delete-pair", "--alter", "--user", "erin", "--client", "c", "--delete-config", "request_percentage"),
    _configs("delete-user-defaults", "--alter", "--user-defaults", "--delete-config", "consumer_byte_rate"),
    _configs("delete-ip", "--alter", "--ip", "10.0.0.7", "--delete-config", "connection_creation_rate"),
    _configs("add-and-delete", "--alter", "--user", "erin", "--add-config", "producer_byte_rate=5000000",
             "--delete-config", "consumer_byte_rate"),
    _configs("describe-all-quotas", "--describe", "--entity-type", "users", "--entity-type", "clients"),
]  # fmt: skip


def _by(user: str, step: Step) -> Step:
    """The step with the login of the user."""
    login = (_OPTION_OF_LOGIN.get(step.main_class, "--command-config"), f"{{folder}}/{user}.properties")
    is_before = step.main_class == _TRANSACTIONS  # this tool's verb comes last
    arguments = (*login, *step.arguments) if is_before else (*step.arguments, *login)
    return step._replace(name=f"{user}-{step.name}", arguments=arguments)


def _tokens(name: str, *arguments: str, user: str = "alice") -> Step:
    return _by(user, Step(f"tokens-{name}", _TOKENS, arguments))


_CREATE_TOKEN = ("--create", "--max-life-time-period", "-1")
_TOKEN_STEPS = [
    _tokens("describe-none", "--describe"),
    _tokens("create", *_CREATE_TOKEN, "--renewer-principal", "User:bob"),
    _tokens("create-for-another", *_CREATE_TOKEN, "--owner-principal", "User:bob"),
    _tokens("create-bad-renewer", *_CREATE_TOKEN, "--renewer-principal", "Group:g"),
    _tokens("describe", "--describe"),
    _tokens("describe-by-owner", "--describe", "--owner-principal", "User:alice"),
    _tokens("describe-of-another", "--describe", "--owner-principal", "User:bob"),
    _tokens("describe-as-renewer", "--describe", user="bob"),
    _tokens("renew", "--renew", "--hmac", "{hmac}", "--renew-time-period", "-1"),
    _tokens("renew-as-renewer", "--renew", "--hmac", "{hmac}", "--renew-time-period", "3600000", user="bob"),
    _tokens("renew-unknown", "--renew", "--hmac", "YWJj", "--renew-time-period", "-1"),
    _tokens("expire-later", "--expire", "--hmac", "{hmac}", "--expiry-time-period", "7200000"),
    _tokens("expire", "--expire", "--hmac", "{hmac}", "--expiry-time-period", "-1"),
    _tokens("expire-again", "--expire", "--hmac", "{hmac}", "--expiry-time-period", "-1"),
    _tokens("describe-gone", "--describe"),
]
_REFUSED_STEPS = [
    _by("alice", step)
    for step in (
        Step("acls-list", _ACLS, ("--list",)),
        Step("acls-add", _ACLS, ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t")),
        Step("acls-remove", _ACLS, ("--remove", "--force", "--topic", "t")),
        Step("topics-list", TOPICS, ("--list",)),
        Step("topics-create", TOPICS, ("--create", "--topic", "new")),
        Step("topics-describe", TOPICS, ("--describe", "--topic", "secret")),
        Step("topics-alter", TOPICS, ("--alter", "--topic", "secret", "--partitions", "3")),
        Step("topics-delete", TOPICS, ("--delete", "--topic", "secret")),
        Step("configs-describe-topic", CONFIGS, ("--describe", "--topic", "secret")),
        Step("configs-alter-topic", CONFIGS, ("--alter", "--topic", "secret", "--add-config", "retention.ms=1")),
        Step("configs-describe-broker", CONFIGS, ("--describe", "--broker", "0")),
        Step("configs-alter-brokers", CONFIGS, ("--alter", "--broker-defaults", "--add-config", "log.retention.ms=1")),
        Step("configs-describe-users", CONFIGS, ("--describe", "--entity-type", "users")),
        Step("configs-alter-user", CONFIGS, ("--alter", "--user", "alice", "--add-config", "producer_byte_rate=1")),
        Step("configs-scram", CONFIGS, ("--alter", "--user", "alice", "--add-config", _SHA_512)),
        Step("configs-describe-ips", CONFIGS, ("--describe", "--entity-type", "ips")),
        Step("groups-list", _GROUPS, ("--list",)),
        Step("groups-describe", _GROUPS, ("--describe", "--group", "g")),
        Step("groups-delete", _GROUPS, ("--delete", "--group", "g")),
        Step("get-offsets", GET_OFFSETS, ("--topic", "secret")),
        Step("log-dirs", LOG_DIRS, ("--describe",)),
        Step("delete-records", DELETE_RECORDS, ("--offset-json-file", "{folder}/offsets.json")),
        Step("election", _ELECTION, ("--election-type", "preferred", "--topic", "secret", "--partition", "0")),
        Step("transactions-list", _TRANSACTIONS, ("list",)),
        Step("transactions-describe", _TRANSACTIONS, ("describe", "--transactional-id", "x")),
    )
]
STEPS = (*_ACL_STEPS, *_USER_STEPS, *_QUOTA_STEPS, *_TOKEN_STEPS, *_REFUSED_STEPS)
_OWN_WORDS = {"acls-add-slash"}
"""Apache Kafka only says "Failed to create ACL"; ours says why."""


def _perform(runner: ToolRunner, broker: AuthorizedBroker, folder: Path) -> dict[str, Said]:
    admin = Target(broker.name, broker.zookeeper, [broker.port], [], [])
    client = Target(broker.name, broker.zookeeper, [broker.client_port], [], [])
    said: dict[str, Said] = {}
    hmac = ""
    for step in STEPS:
        places = {"{folder}": str(folder), "{hmac}": hmac}
        target = client if step.name.split("-")[0] in _USERS else admin
        answer = runner.run(target, step._replace(arguments=[_filled(each, places) for each in step.arguments]))
        found = _HMAC.search("\n".join(answer.lines))
        hmac = found[0] if found else hmac
        said[step.name] = Said(answer.code, _comparable(answer.lines))
    return said


def _filled(argument: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        argument = argument.replace(name, value)
    return argument


def _comparable(lines: Iterable[str]) -> list[str]:
    """The lines without the parts that differ between any two clusters, sorted, because the tools iterate over hash
    tables.
    """
    text = "\n".join(lines)
    for pattern, name in ((_HMAC, "HMAC"), (_TOKEN_ID, "ID"), (_DATE, "DATE"), (_ITERATED, r"\1=")):
        text = pattern.sub(name, text)
    text = _NAMED_REQUEST.sub("Cluster authorization failed.", text)
    return sorted(" ".join(sorted(re.split("[ ,]+", line.strip()))) for line in text.splitlines() if line.strip())


@pytest.fixture(scope="module")
def said(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Said]]:
    """The tools' output, by target and step."""
    folder = tmp_path_factory.mktemp("security-tools")
    offset = {"topic": "secret", "partition": 0, "offset": 0}
    (folder / "offsets.json").write_text(json.dumps({"version": 1, "partitions": [offset]}))
    for user, password in _USERS.items():
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        (folder / f"{user}.properties").write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
        )
    names, chroots = targets.NAMES, [f"security-tools-{name}" for name in targets.NAMES]
    more: dict[str, Any] = {"delegation.token.secret.key": "a secret of the cluster"}
    runner = ToolRunner(jars.ORACLE_VERSION)
    try:
        with authorized_brokers(peer_zookeeper, folder, names, chroots, **more) as brokers:
            return {broker.name: _perform(runner, broker, folder) for broker in brokers}
    finally:
        runner.close()


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_a_tool_says_the_same_as_to_apache_kafka(said: dict[str, dict[str, Said]], step: str) -> None:
    """The exit code and every line are equal."""
    ours, theirs = (said[name][step] for name in targets.NAMES)
    assert ours.code == theirs.code
    assert (ours.lines == theirs.lines) == (step not in _OWN_WORDS)
