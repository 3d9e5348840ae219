"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: Kafka's sources, synonyms, checks and messages."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.broker.config.broker_configs import BROKER_CONFIGS
from kafka_zk.broker.security.authorizer import Authorizer, Operation, Resource
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext
from kafka_zk.storage.files.log_config import TOPIC_CONFIGS
from tests.kafka_zk.broker.conftest import CONTEXT, Harness

Make = Callable[..., Harness]
TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(broker: Harness, kind: int, name: str, *keys: str, version: int = 4) -> Any:
    request = codec.request(ApiKey.DESCRIBE_CONFIGS)
    resource = request.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    asked = request(resources=[resource], include_synonyms=True, include_documentation=True)
    return broker.ask(ApiKey.DESCRIBE_CONFIGS, version, asked).results[0]


def entries(result: Any) -> dict[str, tuple[str | None, int, list[tuple[str, str | None, int]]]]:
    return {
        entry.name: (entry.value, entry.config_source, [(s.name, s.value, s.source) for s in entry.synonyms])
        for entry in result.configs
    }


def change(broker: Harness, kind: int, name: str, *operations: tuple[str, int, str | None], **fields: Any) -> Any:
    request = codec.request(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    resource = request.AlterConfigsResource
    configs = [resource.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in operations]
    resources = [resource(resource_type=kind, resource_name=name, configs=configs)]
    asked = request(**{"resources": resources, "validate_only": False, **fields})
    result = broker.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked).responses[0]
    return result.error_code, result.error_message


def replace(broker: Harness, kind: int, name: str, *configs: tuple[str, str | None]) -> Any:
    request = codec.request(ApiKey.ALTER_CONFIGS)
    resource = request.AlterConfigsResource
    entries_ = [resource.AlterableConfig(name=key, value=value) for key, value in configs]
    asked = request(resources=[resource(resource_type=kind, resource_name=name, configs=entries_)], validate_only=False)
    result = broker.ask(ApiKey.ALTER_CONFIGS, 2, asked).responses[0]
    return result.error_code, result.error_message


def test_a_topic_is_described_with_every_key(harness: Make) -> None:
    """The topic's own values win over the broker's; each key states the source of its value."""
    broker = harness(message_max_bytes="2000000", log_retention_hours="100")
    broker.lead("t")
    broker.configs.topics["t"] = {"retention.bytes": "5"}
    result = describe(broker, TOPIC, "t")
    found = entries(result)
    assert set(found) == set(TOPIC_CONFIGS)
    assert found["retention.bytes"] == ("5", 1, [("retention.bytes", "5", 1), ("log.retention.bytes", "-1", 5)])
    assert found["max.message.bytes"][1:] == (
        4,
        [("message.max.bytes", "2000000", 4), ("message.max.bytes", "1048588", 5)],
    )
    assert found["retention.ms"] == ("360000000", 5, [])  # Kafka's quirk: a value under another spelling does not count
    assert all(entry.documentation and entry.config_type for entry in result.configs)


def test_a_broker_is_described_with_every_key(harness: Make) -> None:
    """The response has static values and defaults; secrets have no value; only some keys are dynamic."""
    broker = harness(num_partitions="7", ssl_key_password="hush-hush")
    result = describe(broker, BROKER, "0")
    found = entries(result)
    assert set(found) == set(BROKER_CONFIGS)
    assert found["num.partitions"] == ("7", 4, [("num.partitions", "7", 4), ("num.partitions", "1", 5)])
    assert found["ssl.key.password"] == (None, 4, [("ssl.key.password", None, 4)])
    read_only = {entry.name: entry.read_only for entry in result.configs}
    assert (read_only["num.partitions"], read_only["max.connections"]) == (True, False)
    assert (read_only["listeners"], read_only["advertised.listeners"]) == (False, False)
    assert read_only["ssl.client.auth"]  # the broker would refuse a change of it
    assert "hush-hush" not in str(result)


def test_the_keys_of_a_bucket_are_not_described(harness: Make) -> None:
    """The same holds for all other keys of a storage plugin: the response has only their names."""
    secret = "rsm.config.storage.aws.secret.access.key"
    broker = harness(rsm_config_storage_aws_secret_access_key="hush-hush")
    for names in ((), (secret,)):
        result = describe(broker, BROKER, "0", *names)
        assert entries(result)[secret] == (None, 4, [(secret, None, 4)])
        assert "hush-hush" not in str(result)


def test_dynamic_values_come_before_static_ones(harness: Make) -> None:
    """This broker's values come first, then the default of all brokers, then the file; they hide other spellings of the
    key.
    """
    broker = harness(log_retention_hours="100")
    broker.services.dynamic_config.take({"log.retention.ms": "7"}, {"log.retention.ms": "8", "max.connections": "9"})
    found = entries(describe(broker, BROKER, "0", "log.retention.ms", "log.retention.hours", "max.connections"))
    hours = [("log.retention.hours", "100", 4), ("log.retention.hours", "168", 5)]
    assert found["log.retention.ms"] == ("7", 2, [("log.retention.ms", "7", 2), ("log.retention.ms", "8", 3), *hours])
    assert found["log.retention.hours"] == ("168", 4, hours)
    assert found["max.connections"][:2] == ("9", 3)
    assert sorted(entries(describe(broker, BROKER, ""))) == ["log.retention.ms", "max.connections"]


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_describe_configs_is_answered(harness: Make, version: int) -> None:
    """Versions differ in the details about a value."""
    broker = harness()
    broker.lead("t")
    (entry,) = describe(broker, TOPIC, "t", "retention.ms", version=version).configs
    assert entry.value == "604800000"


@pytest.mark.parametrize("version", range(5))
def test_all_topics_of_a_large_cluster_are_described_in_one_answer(harness: Make, version: int) -> None:
    """kafka-topics sends such a request; it takes no more of the request memory than its response needs."""
    broker = harness()
    topics = [f"t{number}" for number in range(100)]
    for name in topics:
        broker.lead(name)
    request = codec.request(ApiKey.DESCRIBE_CONFIGS)
    resources = [
        request.DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in topics
    ]
    asked = request(resources=resources, include_synonyms=False, include_documentation=False)
    account = MemoryPool(500_000).account()
    answers: list[Any] = []
    broker.start(
        ApiKey.DESCRIBE_CONFIGS, version, asked, CONTEXT._replace(memory=account)
    ).addCallback(answers.append)
    assert [each.resource_name for each in answers[0].results] == topics
    assert {len(result.configs) for result in answers[0].results} == {len(TOPIC_CONFIGS)}
    assert 0 < account.size_bytes < 500_000


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "0", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", ErrorCode.INVALID_REQUEST),
        (1, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_says_why(harness: Make, kind: int, name: str, code: ErrorCode) -> None:
    """The error code is Kafka's, and there are no entries."""
    broker = harness()
    broker.lead("t")
    result = describe(broker, kind, name)
    assert (result.error_code, result.configs) == (code, [])


def test_incremental_operations_change_single_keys(harness: Make) -> None:
    """SET, DELETE, APPEND to the default of a list, SUBTRACT; all other keys stay."""
    broker = harness()
    broker.lead("t")
    throttled = "leader.replication.throttled.replicas"
    assert change(broker, TOPIC, "t", ("retention.ms", SET, "5"), (throttled, SET, "0:1,1:2")) == (0, None)
    assert change(broker, TOPIC, "t", (throttled, APPEND, "2:2,0:1"), ("segment.ms", SET, " 7 ")) == (0, None)
    assert broker.configs.topics["t"] == {"retention.ms": "5", throttled: "0:1,1:2,2:2", "segment.ms": " 7 "}
    assert change(broker, TOPIC, "t", (throttled, SUBTRACT, "1:2"), ("retention.ms", DELETE, None)) == (0, None)
    assert broker.configs.topics["t"] == {throttled: "0:1,2:2", "segment.ms": " 7 "}
    assert change(broker, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert broker.configs.topics["t"]["cleanup.policy"] == ""


PREFIX = "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): Invalid value "


@pytest.mark.parametrize(
    ("operation", "code", "text"),
    [
        (("retention.ms", SET, "x"), 40, f"{PREFIX}x for configuration retention.ms: Not a number of type LONG"),
        (("retention.ms", SET, "-2"), 40, f"{PREFIX}-2 for configuration retention.ms: Value must be at least -1"),
        (("segment.bytes", SET, "1_000"), 40,
         f"{PREFIX}1_000 for configuration segment.bytes: Not a number of type INT"),
        (("preallocate", SET, "yes"), 40,
         f"{PREFIX}yes for configuration preallocate: Expected value to be either true or false"),
        (("cleanup.policy", SET, "foo"), 40,
         f"{PREFIX}foo for configuration cleanup.policy: String must be one of: compact, delete"),
        (("compression.gzip.level", SET, "0"), 40,
         f"{PREFIX}0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"),
        (("min.cleanable.dirty.ratio", SET, "2"), 40,
         f"{PREFIX}2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
        (("message.timestamp.type", SET, "x"), 40,
         f"{PREFIX}x for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"),
        (("no.such", SET, "1"), 40, "Unknown topic config name: no.such"),
        (("no.such", APPEND, "1"), -1, None),
        (("retention.ms", APPEND, "1"), 40, "Config value append is not allowed for config key: retention.ms"),
        (("retention.ms", SET, None), 42, "Null value not supported for : retention.ms"),
        (("remote.log.copy.disable", SET, "true"), 40,
         "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."),
    ],
)  # fmt: skip
def test_what_a_topic_cannot_have_is_refused_in_kafkas_words(
    harness: Make, operation: tuple[str, int, str | None], code: int, text: str | None
) -> None:
    """A refused change writes nothing."""
    broker = harness()
    broker.lead("t")
    assert change(broker, TOPIC, "t", operation) == (code, text)
    assert broker.configs.topics == {}


@pytest.mark.parametrize(
    ("operation", "code", "text"),
    [
        (("broker.id", SET, "4"), 42, "Cannot update these configs dynamically: Set(broker.id)"),
        (("log.retention.ms", SET, "x"), 42,
         "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        (("log.retention.ms", SET, "0"), 42,
         "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        (("message.max.bytes", SET, "-1"), 42,
         "Invalid value -1 for configuration message.max.bytes: Value must be at least 0"),
        (("max.connections", SET, "-1"), 42,
         "Invalid value -1 for configuration max.connections: Value must be at least 0"),
        (("max.connections", APPEND, "1"), 40, "Config value append is not allowed for config key: max.connections"),
        (("log.cleaner.threads", SET, "3"), 42,
         "Log cleaner threads cannot be increased to more than double the current value 1"),
        (("log.cleaner.threads", SET, "0"), 42, "Log cleaner threads should be at least 1"),
        (("log.cleaner.enable", SET, "false"), 42,
         "Cannot update these configs dynamically: Set(log.cleaner.enable)"),
        (("max.connections", 9, "1"), 42, "Unknown operations type 9"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["0", ""])
def test_what_a_broker_cannot_change_is_refused_in_kafkas_words(
    harness: Make, name: str, operation: tuple[str, int, str], code: int, text: str
) -> None:
    """The broker refuses the change, whether it is for this broker or for the default of all brokers."""
    broker = harness()
    assert change(broker, BROKER, name, operation) == (code, text)
    assert broker.configs.brokers == {}


def test_how_java_renews_tickets_can_be_stored_for_one_broker(harness: Make) -> None:
    """Apache Kafka stores the key, too; librdkafka's test 0081 changes it. It has no effect here. Keys with an effect
    are refused.
    """
    broker = harness()
    key = "sasl.kerberos.min.time.before.relogin"
    assert change(broker, BROKER, "0", (key, SET, "58000")) == (0, None)
    assert broker.configs.brokers == {"0": {key: "58000"}}
    assert change(broker, BROKER, "0", (key, SET, "soon"))[0] == 42
    assert change(broker, BROKER, "", (key, SET, "58000"))[0] == 42
    for other in (("sasl.login.refresh.window.factor", "0.9"), ("sasl.kerberos.principal.to.local.rules", "DEFAULT")):
        assert change(broker, BROKER, "0", (other[0], SET, other[1]))[0] == 42


def test_advertised_listeners_change_for_one_broker(harness: Make) -> None:
    """The broker refuses a default for all brokers, and names that are not among the listeners."""
    broker = harness()
    advertised = "PLAINTEXT://one.example:9092"
    assert change(broker, BROKER, "0", ("advertised.listeners", SET, advertised)) == (0, None)
    assert broker.configs.brokers == {"0": {"advertised.listeners": advertised}}
    assert change(broker, BROKER, "", ("advertised.listeners", SET, advertised)) == (
        42,
        "Cannot update these configs at default cluster level, broker id must be specified: Set(advertised.listeners)",
    )
    for wrong in ("SSL://one.example:9092", "one.example"):
        code, _ = change(broker, BROKER, "0", ("advertised.listeners", SET, wrong))
        assert code == 42, wrong


def test_broker_changes_are_kept_under_the_brokers_id_or_default(harness: Make) -> None:
    """Unknown keys may belong to plugins and are kept, as in Kafka. Tuning keys without an effect here are kept,
    too.
    """
    broker = harness()
    assert change(broker, BROKER, "0", ("max.connections", SET, "5"), ("zz.custom", SET, "a")) == (0, None)
    cleaner = {"log.cleaner.threads": "2", "log.cleaner.backoff.ms": "7", "log.cleanup.policy": "compact"}
    assert change(broker, BROKER, "", *((key, SET, value) for key, value in cleaner.items())) == (0, None)
    assert broker.configs.brokers == {"0": {"max.connections": "5", "zz.custom": "a"}, "<default>": cleaner}


def test_a_dry_run_writes_nothing(harness: Make) -> None:
    """With validate_only, the request has no effect."""
    broker = harness()
    broker.lead("t")
    assert change(broker, TOPIC, "t", ("retention.ms", SET, "5"), validate_only=True) == (0, None)
    assert change(broker, BROKER, "0", ("max.connections", SET, "5"), validate_only=True) == (0, None)
    assert (broker.configs.topics, broker.configs.brokers) == ({}, {})


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (TOPIC, "", "Default topic resources are not allowed."),
        (BROKER, "1", "Unexpected broker id, expected 0, but received 1"),
        (BROKER, "x", "Node id must be an integer, but it is: x"),
        (1, "0", "Unknown resource type 1"),
        (CLIENT_METRICS, "0",
         "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS"),
    ],
)  # fmt: skip
def test_resources_that_cannot_be_altered(harness: Make, kind: int, name: str, text: str) -> None:
    """Both APIs return the same error."""
    broker = harness()
    assert change(broker, kind, name, ("max.connections", SET, "1")) == (ErrorCode.INVALID_REQUEST, text)
    assert replace(broker, kind, name, ("max.connections", "1")) == (ErrorCode.INVALID_REQUEST, text)


def test_the_older_api_replaces_everything(harness: Make) -> None:
    """A key that the request does not name is removed; duplicate keys are refused."""
    broker = harness()
    broker.lead("t")
    broker.configs.topics["t"] = {"retention.ms": "5"}
    assert replace(broker, TOPIC, "t", ("segment.ms", "6")) == (0, None)
    assert broker.configs.topics["t"] == {"segment.ms": "6"}
    assert replace(broker, TOPIC, "t", ("a", "1"), ("a", "2")) == (42, "Error due to duplicate config keys")
    assert replace(broker, TOPIC, "u", ("segment.ms", "6")) == (3, "The topic 'u' does not exist.")
    assert replace(broker, TOPIC, "t") == (0, None)
    assert broker.configs.topics["t"] == {}


def test_tiered_storage_of_a_topic_is_not_turned_off(harness: Make) -> None:
    """Brokers of Apache Kafka in the same cluster may tier the topic. Both APIs refuse, even in a dry run."""
    broker = harness()
    broker.lead("t")
    tiered = broker.configs.topics["t"] = {"remote.storage.enable": "true", "retention.ms": "5"}
    text = (
        "remote.storage.enable=true of topic 't' cannot be changed or removed in ZooKeeper mode: all records that are "
        "only in remote storage would be lost. Copy them to another topic, and then delete this one."
    )
    refused = (ErrorCode.INVALID_CONFIG, text)
    assert change(broker, TOPIC, "t", ("remote.storage.enable", SET, "false")) == refused
    assert change(broker, TOPIC, "t", ("remote.storage.enable", DELETE, None)) == refused
    assert change(broker, TOPIC, "t", ("remote.storage.enable", SET, "false"), validate_only=True) == refused
    assert replace(broker, TOPIC, "t", ("retention.ms", "6")) == refused
    assert broker.configs.topics["t"] is tiered

    broker.configs.topics["t"] = {"remote.storage.enable": "false"}
    assert change(broker, TOPIC, "t", ("remote.storage.enable", DELETE, None)) == (0, None)


class Forbids(Authorizer):
    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return operation is not Operation.ALTER_CONFIGS


@pytest.mark.parametrize("alter", ["change", "replace"])
def test_no_file_is_read_for_who_may_not_alter_configs(harness: Make, alter: str) -> None:
    """Reading the file would reveal which files exist, and could take any amount of time and memory."""
    broker = harness(listeners="SSL://127.0.0.1:9092", security_inter_broker_protocol="SSL")
    checked: list[str] = []
    key = "listener.name.ssl.ssl.keystore.location"
    broker.services.dynamic_config.check_listeners = lambda config: checked.append(
        config.properties[key]
    )

    def altered() -> int:
        if alter == "change":
            code: int = change(broker, BROKER, "0", (key, SET, "/dev/zero"))[0]
        else:
            code = replace(broker, BROKER, "0", (key, "/dev/zero"))[0]
        return code

    allowing, broker.services.authorizer = broker.services.authorizer, Forbids()
    assert altered() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not checked
    broker.services.authorizer = allowing
    assert altered() == ErrorCode.NONE
    assert checked == ["/dev/zero"]


@pytest.mark.parametrize("password", ["right", "wrong"])
@pytest.mark.parametrize("alter", ["change", "replace"])
def test_who_may_not_alter_configs_cannot_guess_passwords(harness: Make, alter: str, password: str) -> None:
    """The keys of an open listener cannot change, so only the right password would be accepted, as no change."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    broker = harness(
        listeners="PLAINTEXT://127.0.0.1:9092,CLIENT://127.0.0.1:9093",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        inter_broker_listener_name="PLAINTEXT",
        listener_name_client_plain_sasl_jaas_config=f'{module} required user_alice="right";',
    )
    broker.services.authorizer = Forbids()
    key, text = "listener.name.client.plain.sasl.jaas.config", f'{module} required user_alice="{password}";'
    if alter == "change":
        code, _ = change(broker, BROKER, "0", (key, SET, text))
    else:
        code, _ = replace(broker, BROKER, "0", (key, text))
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
