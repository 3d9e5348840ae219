"""The table of broker keys: a key needs only its row, and no other table defines keys."""

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kafka_zk
from kafka_zk.broker.config import broker_keys, values
from kafka_zk.broker.config.broker_configs import ALL_KEYS, BROKER_CONFIGS, TOPIC_DEFAULTS, synonyms
from kafka_zk.broker.config.broker_key import UNUSED, BrokerKey, Update, Use
from kafka_zk.broker.config.broker_keys import BrokerKeys
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig
from kafka_zk.broker.config.security_keys import SecurityKeys
from kafka_zk.protocol.errors import ApiError
from kafka_zk.registry.client.security_keys import KEYS as SECURITY_KEYS
from kafka_zk.registry.faults import TOLD_COUNT
from kafka_zk.storage.files.log_config import TOPIC_CONFIGS

MINIMAL = {"zookeeper.connect": "127.0.0.1:2181", "broker.id": "0"}
ROOT = Path(kafka_zk.__file__).parent
ROWS = [pytest.param(row, id=name) for name, row in ALL_KEYS.items()]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_all_that_a_key_needs(row: BrokerKey[Any]) -> None:
    """Each key that the broker uses has an attribute. Every key has documentation and a default that its own rules
    allow.
    """

    def value_in(config: KafkaConfig) -> object:
        attribute = row.name.replace(".", "_")
        return getattr(config, attribute) if hasattr(KafkaConfig, attribute) else config.read(row)

    assert row.use is Use.IGNORED or hasattr(KafkaConfig, row.name.replace(".", "_"))
    config, _ = KafkaConfig.from_properties(MINIMAL)
    expected = row.value(MINIMAL[row.name]) if row.name in MINIMAL else row.default_value
    assert value_in(config) == expected
    assert row.documentation.strip()
    if row.use is Use.IGNORED:
        assert row.documentation == UNUSED, "the broker warns that it ignores the key: the row needs use=READ"
    assert row.use is not Use.READ or row.documentation != UNUSED
    if row.default is not None:
        assert values.parse(row.name, row.type, row.default) == row.check(row.default)
        configured = KafkaConfig.from_properties({**MINIMAL, row.name: row.default})[0]
        assert value_in(configured) == row.value(row.default)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_says_what_may_change_while_the_broker_runs(row: BrokerKey[Any]) -> None:
    """The row decides whether AlterConfigs accepts a key; a key that DescribeConfigs does not list is treated as a
    plugin's key.
    """
    dynamic = DynamicBrokerConfig(MINIMAL)
    properties = {row.name: row.default or {"INT": "1", "LONG": "1"}.get(row.type, "")}
    if row.is_changeable or not row.is_listed:
        dynamic.validate(properties, per_broker=True)
    else:
        with pytest.raises(ApiError, match="dynamically"):
            dynamic.validate(properties, per_broker=True)


def test_a_key_has_one_row() -> None:
    names = Counter(row.name for row in broker_keys.ROWS)
    repeated = [name for name, count in names.items() if count > 1]
    assert repeated == [], "a key that has a row needs no line in unused_keys.txt: delete the line"


@pytest.mark.parametrize("table", [BrokerKeys, SecurityKeys])
def test_the_table_is_in_the_order_of_describe_configs(table: type) -> None:
    """The table is sorted, so that the place of a key is found without a search."""
    names = [row.name for row in vars(table).values() if isinstance(row, BrokerKey) and row.is_listed]
    assert names == sorted(names)


def test_nothing_else_defines_keys() -> None:
    """No literal in the broker's other modules lists keys, and no other class has rows. ZooKeeper's keys have rows
    too.
    """
    assert [name for name in vars(KafkaConfig) if isinstance(vars(KafkaConfig)[name], BrokerKey)] == []
    assert all(ALL_KEYS[name].use is Use.ACCEPTED for name in SECURITY_KEYS)
    lists = []
    for room in ("process", "config", "handlers", "metadata", "replica"):
        for path in (ROOT / "broker" / room).rglob("*.py"):
            lists += [(path.name, node) for node in ast.walk(ast.parse(path.read_text())) if _lists_keys(node)]
    assert lists == []


def _lists_keys(node: ast.AST) -> bool:
    if isinstance(node, ast.Dict):
        elements = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        elements = node.elts
    else:
        return False
    return sum(isinstance(element, ast.Constant) and element.value in ALL_KEYS for element in elements) > 1


def test_topic_keys_have_their_defaults_in_the_broker() -> None:
    """Only the topic keys without a broker default in Kafka are missing. Of several spellings, the one with the finest
    unit wins.
    """
    only_topics = {
        "follower.replication.throttled.replicas", "leader.replication.throttled.replicas",
        "remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
    }  # fmt: skip
    assert set(TOPIC_CONFIGS) - set(TOPIC_DEFAULTS) == only_topics
    retention = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert {synonyms(key) for key in retention} == {retention}
    assert synonyms("log.flush.interval.ms") == ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    assert synonyms("log.flush.scheduler.interval.ms") == ("log.flush.scheduler.interval.ms",)


def test_update_modes_are_kafkas() -> None:
    """The test has one key for each update mode."""
    modes = [BROKER_CONFIGS[key].update for key in ("broker.id", "listeners", "ssl.key.password", "num.io.threads")]
    assert modes == [Update.READ_ONLY, Update.PER_BROKER, Update.PER_LISTENER, Update.CLUSTER_WIDE]


@pytest.mark.parametrize("text", ["1_000", str(2**31)])
def test_a_number_must_be_of_kafkas_type(text: str) -> None:
    """A value that DescribeConfigs could not show is rejected at startup."""
    with pytest.raises(InvalidBrokerConfig, match=r"^request.timeout.ms=.*must be a number$"):
        KafkaConfig.from_properties({**MINIMAL, "request.timeout.ms": text})


def test_a_configuration_does_not_change() -> None:
    config, _ = KafkaConfig.from_properties(MINIMAL)
    with pytest.raises(AttributeError):
        config.num_partitions = 3
    assert BrokerKeys.num_partitions.name == "num.partitions"


def test_many_dynamic_values_that_are_refused_are_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Keys that Kafka does not have are kept."""
    dynamic = DynamicBrokerConfig(MINIMAL)
    dynamic.take({f"ssl.x{number}": "x" for number in range(100)} | {"of.a.plugin": "x"}, {})
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == TOLD_COUNT + 1 and "95 more" in lines[-1]
    assert dynamic.effective()["of.a.plugin"] == "x"
