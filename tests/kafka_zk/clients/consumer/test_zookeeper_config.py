"""The old consumer's configuration."""

from typing import Any

import pytest

from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.clients.serdes import SERDES
from kafka_zk.rebalance.config import GroupConfig


def config(**options: Any) -> ZookeeperConsumerConfig:
    return ZookeeperConsumerConfig.from_properties({"group.id": "g", **options})


def test_defaults_are_those_of_the_old_consumer() -> None:
    """The expected defaults are from ConsumerConfig.scala@0.10.2."""
    made = config()
    assert made.zookeeper_session_timeout_ms == 6_000
    assert made.backoff_ms == made.zookeeper_sync_time_ms == 2_000
    assert made.auto_commit_enable and made.auto_commit_interval_ms == 60_000
    assert made.strategies == ("range",)
    assert made.group == GroupConfig(2_000, 4, True)
    reader = made.reader
    assert reader.client_id == "g"
    assert reader.auto_offset_reset == "latest"
    assert (reader.fetch_max_wait_ms, reader.fetch_min_bytes) == (100, 1)
    assert reader.max_partition_fetch_bytes == made.ahead_bytes == 1 << 20


def test_a_file_of_the_old_consumer_is_taken_as_it_is() -> None:
    """The file has strings as values, Kafka's spelling, and keys without a meaning here."""
    made = config(
        **{
            "zookeeper.connect": "h1:2181,h2:2181/kafka",
            "zookeeper.sync.time.ms": "500",
            "auto.commit.enable": "false",
            "num.consumer.fetchers": "4",
            "socket.receive.buffer.bytes": "65536",
            "offsets.storage": "zookeeper",
            "queued.max.message.chunks": "3",
            "fetch.message.max.bytes": "1000",
        }
    )
    assert not made.auto_commit_enable and made.backoff_ms == 500 and made.ahead_bytes == 2_000


@pytest.mark.parametrize(
    ("given", "reset"),
    [("smallest", "earliest"), ("earliest", "earliest"), ("largest", "latest"), ("latest", "latest"),
     ("error", "none"), ("none", "none")],
)  # fmt: skip
def test_both_generations_of_names_for_the_reset(given: str, reset: str) -> None:
    """The values are smallest, largest and error, or their names in the new consumer."""
    assert config(auto_offset_reset=given).reader.auto_offset_reset == reset


def test_strategies_are_a_list_with_the_favourite_first() -> None:
    """The list is a string, as in a file, or a sequence; ZooKeeper shows cooperative as cooperative-sticky."""
    assert config(partition_assignment_strategy="cooperative, range").strategies == ("cooperative-sticky", "range")
    assert config(partition_assignment_strategy=["sticky", "roundrobin"]).strategies == ("sticky", "roundrobin")


@pytest.mark.parametrize("strategies", ["cooperative", "sticky", "range, sticky"])
def test_a_static_member_needs_a_strategy_that_keeps_places(strategies: str) -> None:
    """One such strategy in the list is enough, because the group's strategy depends on the other members."""
    made = config(group_instance_id="i1", partition_assignment_strategy=strategies)
    assert (made.group_instance_id, made.session_timeout_ms) == ("i1", 45_000)


def test_deserializers_by_name_or_object() -> None:
    """Without a deserializer, keys and values stay bytes, which costs nothing."""
    own = SERDES["json"].deserializer
    assert config(key_deserializer="string", value_deserializer=own).deserializers == (
        SERDES["string"].deserializer,
        own,
    )
    assert config(key_deserializer="bytes").deserializers == (None, None)


@pytest.mark.parametrize(
    ("options", "is_dual"),
    [
        ({}, False),
        ({"offsets.storage": "kafka"}, True),
        ({"offsets.storage": "kafka", "dual.commit.enabled": "false"}, False),
        ({"offsets.storage": "kafka", "dual.commit.enabled": "true"}, True),
    ],
)
def test_offsets_in_kafka_are_committed_to_both_sides_by_default(options: dict[str, str], is_dual: bool) -> None:
    """The default is that of Kafka 0.8.2."""
    assert config(**options).dual_commit_enabled is is_dual


def test_zookeeper_can_be_secured_by_the_same_keys_as_a_brokers() -> None:
    """Examples are zookeeper.auth.digest and the keys zookeeper.ssl.*."""
    digest = config(**{"zookeeper.auth.digest": "joe:secret"}).zookeeper_security.digest
    assert digest is not None and digest.username == "joe"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"group.id": ""}, "group.id: '' is not valid: use letters"),
        ({"group.id": "a/b"}, "group.id: 'a/b' is not valid: use letters"),
        ({"group.id": ".."}, "group.id: '..' is not valid: use letters"),
        ({"group.id": "a b"}, "group.id: 'a b' is not valid: use letters"),
        ({"offsets.storage": "disk"}, "offsets.storage: 'disk' is not one of zookeeper, kafka"),
        ({"dual.commit.enabled": "true"}, "dual.commit.enabled has an effect only with offsets.storage=kafka"),
        ({"offsets.storage": "kafka", "dual.commit.enabled": "both"}, "dual.commit.enabled: 'both' is neither"),
        ({"partition.assignment.strategy": "range,best"}, "'best' is not one of range, .*, weighted, cooperative$"),
        ({"auto.offset.reset": "middle"}, "auto.offset.reset: 'middle' is not one of"),
        ({"zookeeper.connect": "h1/a,h2/b"}, "zookeeper.connect: .*the chroot is given once"),
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl=true"),
        ({"rebalance.backoff.ms": "soon"}, "rebalance.backoff.ms: 'soon' is not a whole number"),
        ({"consumer.id": "a", "group.instance.id": "b"}, "remove consumer.id"),
        ({"group.instance.id": "a/b"}, "group.instance.id: 'a/b' becomes part of a znode's name"),
        (
            {"group.instance.id": "a"},
            "group.instance.id has no effect under range alone: list sticky, cooperative or weighted",
        ),
        ({"consumer.capacity": "2"}, "consumer.capacity has no effect under range alone: list weighted"),
        ({"consumer.capacity": "1001"}, "consumer.capacity.*1000"),
        (
            {"group.instance.id": "a", "partition.assignment.strategy": "roundrobin,range"},
            "group.instance.id has no effect under roundrobin and range alone: list sticky, cooperative or weighted",
        ),
        ({"socket.timeout.ms": "100"}, "socket.timeout.ms must be above fetch.wait.max.ms"),
        ({"value.deserializer": "xml"}, "value.deserializer: 'xml' is not one of bytes"),
        ({"bootstrap.servers": "h:9092"}, "bootstrap.servers: no such configuration; there are .*zookeeper.connect"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options: dict[str, str], sentence: str) -> None:
    """ConfigError names the key and the allowed values."""
    with pytest.raises(ConfigError, match=sentence):
        config(**options)
