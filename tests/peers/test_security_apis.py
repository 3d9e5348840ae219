"""The APIs of security and quotas against a broker without an authorizer: ours responds as Apache Kafka 3.9.1 does, in
every version, so Kafka's tools print the same.

Changes of quotas: test_quotas.py.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from tests.message_dicts import as_dict
from tests.peers import jars, targets, wire_probe
from tests.peers.tool_script import CONFIGS, Said, Step, ToolRunner, said_to_each

pytestmark = pytest.mark.peers

_ACLS = "kafka.admin.AclCommand"
_DELEGATION_TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"

_ANY, _ALLOW, _READ, _TOPIC, _LITERAL = 1, 3, 3, 2, 3
_ACL = {"resource_type": _TOPIC, "resource_name": "t", "resource_pattern_type": _LITERAL, "principal": "User:a",
        "host": "*", "operation": _READ, "permission_type": _ALLOW}  # fmt: skip
_ACL_FILTER = {"resource_type_filter": _ANY, "resource_name_filter": None, "pattern_type_filter": _ANY,
               "principal_filter": None, "host_filter": None, "operation": _ANY, "permission_type": _ANY}  # fmt: skip
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2


def _quotas(*entity_types: str, match_type: int = _SPECIFIED, match: str | None = None) -> dict[str, Any]:
    components = [{"entity_type": each, "match_type": match_type, "match": match} for each in entity_types]
    return {"components": components, "strict": False}


def _users(*names: str) -> dict[str, Any]:
    return {"users": [{"name": name} for name in names]}


_OPERATIONS_TOPIC, _GROUP = "operations", "no-such-group"
_COORDINATOR_TIMEOUT_S = 30
_TOKEN = {"renewers": [{"principal_type": "User", "principal_name": "b"}], "max_lifetime_ms": -1}

REQUESTS: Mapping[str, tuple[ApiKey, dict[str, Any]]] = {
    "SaslHandshake": (ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}),
    "SaslAuthenticate": (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0user\0password"}),
    "DescribeAcls": (ApiKey.DESCRIBE_ACLS, _ACL_FILTER),
    "CreateAcls": (ApiKey.CREATE_ACLS, {"creations": [_ACL, {**_ACL, "resource_name": "u"}]}),
    "CreateAcls of none": (ApiKey.CREATE_ACLS, {"creations": []}),
    "DeleteAcls": (ApiKey.DELETE_ACLS, {"filters": [_ACL_FILTER]}),
    "CreateDelegationToken": (ApiKey.CREATE_DELEGATION_TOKEN, _TOKEN),
    "CreateDelegationToken for another": (
        ApiKey.CREATE_DELEGATION_TOKEN,
        {**_TOKEN, "owner_principal_type": "User", "owner_principal_name": "c"},
    ),
    "RenewDelegationToken": (ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": b"abc", "renew_period_ms": 1000}),
    "ExpireDelegationToken": (ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": b"abc", "expiry_time_period_ms": -1}),
    "DescribeDelegationToken": (ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
    "DescribeClientQuotas": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas()),
    "DescribeClientQuotas of users": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("user", "client-id")),
    "DescribeClientQuotas of a user": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("user", match_type=_EXACT, match="a")),
    "DescribeClientQuotas of the default ip": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("ip", match_type=_DEFAULT)),
    "DescribeClientQuotas of user and ip": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("user", "ip")),
    "DescribeClientQuotas of user twice": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("user", "user")),
    "DescribeClientQuotas of client-id twice": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("client-id", "client-id")),
    "DescribeClientQuotas of no type": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("")),
    "DescribeClientQuotas of another type": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("planet")),
    "DescribeClientQuotas of an unknown match type": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("user", match_type=9)),
    "DescribeClientQuotas of no user": (ApiKey.DESCRIBE_CLIENT_QUOTAS, _quotas("user", match_type=_EXACT)),
    "DescribeUserScramCredentials": (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None}),
    "DescribeUserScramCredentials of none": (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, _users()),
    "DescribeUserScramCredentials of users": (
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        _users("b", "a", "", "c", "c"),
    ),
}
"""By name: an API, and the fields of its request."""

_CASES = [
    (name, version)
    for name, (api_key, _) in REQUESTS.items()
    for version in range(BROKER_VERSIONS[api_key][0], BROKER_VERSIONS[api_key][1] + 1)
]

_OPERATIONS: Mapping[str, tuple[ApiKey, int, dict[str, Any]]] = {
    **{
        f"Metadata v{version}": (
            ApiKey.METADATA,
            version,
            {
                "topics": [{"name": _OPERATIONS_TOPIC}, {"name": "no-such-topic"}],
                "allow_auto_topic_creation": False,
                "include_cluster_authorized_operations": True,
                "include_topic_authorized_operations": True,
            },
        )
        for version in range(8, 13)
    },
    "Metadata of all topics": (
        ApiKey.METADATA,
        12,
        {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": True},
    ),
    "Metadata without operations": (
        ApiKey.METADATA,
        10,
        {"topics": [{"name": _OPERATIONS_TOPIC}], "allow_auto_topic_creation": False},
    ),
    "Metadata of an unknown topic id": (
        ApiKey.METADATA,
        12,
        {
            "topics": [{"topic_id": uuid.UUID(int=7), "name": None}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
        },
    ),
    **{
        f"DescribeCluster v{version}": (
            ApiKey.DESCRIBE_CLUSTER,
            version,
            {"include_cluster_authorized_operations": True},
        )
        for version in range(2)
    },
    "DescribeCluster without operations": (ApiKey.DESCRIBE_CLUSTER, 1, {}),
    **{
        f"DescribeCluster of endpoint type {number}": (ApiKey.DESCRIBE_CLUSTER, 1, {"endpoint_type": number})
        for number in (0, 2, 9)
    },
    **{
        f"DescribeGroups v{version}": (
            ApiKey.DESCRIBE_GROUPS,
            version,
            {"groups": [_GROUP], "include_authorized_operations": True},
        )
        for version in range(3, 6)
    },
}
"""By name: an API, a version and the fields of a request, with or without authorized operations (KIP-430)."""

STEPS = [
    *(
        Step(f"describe-{entity_type}", CONFIGS, ("--describe", "--entity-type", entity_type))
        for entity_type in ("users", "clients", "ips")
    ),
    Step("describe-a-user", CONFIGS, ("--describe", "--entity-type", "users", "--entity-name", "a")),
    Step("describe-default-user", CONFIGS, ("--describe", "--entity-type", "users", "--entity-default")),
    Step("acls-list", _ACLS, ("--list",)),
    Step("acls-add", _ACLS, ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t")),
    Step("acls-remove", _ACLS, ("--remove", "--force", "--topic", "t")),
    Step("tokens-describe", _DELEGATION_TOKENS, ("--describe", "--command-config", "{folder}/empty.properties")),
    Step("tokens-create", _DELEGATION_TOKENS,
         ("--create", "--max-life-time-period", "-1", "--command-config", "{folder}/empty.properties")),
    Step("tokens-renew", _DELEGATION_TOKENS,
         ("--renew", "--hmac", "YWJj", "--renew-time-period", "-1", "--command-config", "{folder}/empty.properties")),
]  # fmt: skip


def _message(cls: Any, values: Mapping[str, Any]) -> Any:
    """A message whose structs are given as dictionaries."""
    made = {}
    for name, value in values.items():
        struct = cls.table.field(name).struct
        if struct is not None and value is not None:
            value = [_message(struct.message_class, each) for each in value]
        made[name] = value
    return cls(**made)


def _ask(port: int, api_key: ApiKey, version: int, values: Mapping[str, Any]) -> dict[str, Any] | str:
    """Every field of the response, without the parts that differ between any two clusters."""
    message = codec.request(api_key)
    known = {name: value for name, value in values.items() if message.table.field(name).versions.include(version)}
    try:
        answer: dict[str, Any] = as_dict(wire_probe.ask(port, api_key, version, _message(message, known)))
    except ConnectionResetError as error:
        return str(error)
    compared: dict[str, Any] = _comparable(answer)
    return compared


def _comparable(answer: Any) -> Any:
    if isinstance(answer, list):
        each_comparable = [_comparable(each) for each in answer]
        for key in ("name", "partition_index"):  # Kafka lists topics and partitions in the order of a hash map
            if answer and isinstance(answer[0], dict) and key in answer[0]:
                each_comparable.sort(key=lambda each: each[key])
        return each_comparable
    if not isinstance(answer, dict):
        return answer
    own = {"port", "cluster_id", "topic_id"}
    return {name: bool(value) if name in own else _comparable(value) for name, value in answer.items()}


def _wait_for_coordinator(cluster: targets.Target) -> None:
    """Wait until the group's coordinator has loaded its partition: librdkafka repeats its request until then."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": _GROUP, "log_level": 3})
    try:
        consumer.committed([confluent_kafka.TopicPartition(_OPERATIONS_TOPIC, 0)], timeout=_COORDINATOR_TIMEOUT_S)
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def ports(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The port of a broker of each target."""
    clusters = []
    try:
        for name in targets.NAMES:
            folder = tmp_path_factory.mktemp(name)
            cluster = targets.start(name, peer_zookeeper, folder, chroot=f"security-{name}")
            clusters.append(cluster)
            cluster.create_topic(_OPERATIONS_TOPIC)
            _wait_for_coordinator(cluster)
        yield {cluster.name: cluster.ports[0] for cluster in clusters}
    finally:
        for cluster in clusters:
            cluster.stop()


@pytest.mark.parametrize(("name", "version"), _CASES)
def test_a_response_is_that_of_apache_kafka(ports: dict[str, int], name: str, version: int) -> None:
    """Every field of the response is equal."""
    api_key, values = REQUESTS[name]
    ours, theirs = (_ask(ports[target], api_key, version, values) for target in targets.NAMES)
    assert ours == theirs


@pytest.mark.parametrize("name", _OPERATIONS)
def test_authorized_operations_are_those_of_apache_kafka(ports: dict[str, int], name: str) -> None:
    """The response has all authorized operations of a resource, if the request asks for them."""
    ours, theirs = (_ask(ports[target], *_OPERATIONS[name]) for target in targets.NAMES)
    assert ours == theirs


@pytest.fixture(scope="module")
def said(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Said]]:
    """The tools' output, by target and step."""
    folder = tmp_path_factory.mktemp("tools")
    (folder / "empty.properties").write_text("")

    def perform(runner: ToolRunner, target: targets.Target, folder: Path) -> dict[str, Said]:
        return {
            step.name: runner.run(
                target, step._replace(arguments=[each.replace("{folder}", str(folder)) for each in step.arguments])
            )
            for step in STEPS
        }

    return said_to_each(jars.ORACLE_VERSION, peer_zookeeper, folder, "security-tools", perform)


@pytest.mark.parametrize("step", [step.name for step in STEPS])
def test_a_tool_says_the_same_as_to_apache_kafka(said: dict[str, dict[str, Said]], step: str) -> None:
    """The exit code and every line are equal."""
    assert said[targets.KAFKA_ZK][step] == said[targets.APACHE_KAFKA][step]
