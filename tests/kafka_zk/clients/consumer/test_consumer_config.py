"""The configuration of a consumer in a broker-side group."""

from __future__ import annotations

import pytest

from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.clients.consumer.consumer_config import ConsumerConfig


def test_the_defaults_are_kafkas() -> None:
    config = ConsumerConfig.from_properties({"group.id": "g"})
    assert (config.session_timeout_ms, config.heartbeat_interval_ms, config.max_poll_interval_ms) == (
        45_000, 3_000, 300_000
    )  # fmt: skip
    assert config.enable_auto_commit and config.auto_commit_interval_ms == 5_000 and config.client_id == "consumer-g"
    assert config.auto_offset_reset == "latest" and config.member.assignors == ("range",)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("roundrobin, range", ("roundrobin", "range")),
        ("cooperative", ("cooperative-sticky",)),
        ("org.apache.kafka.clients.consumer.RangeAssignor,"
         "org.apache.kafka.clients.consumer.CooperativeStickyAssignor", ("range", "cooperative-sticky")),
    ],
)  # fmt: skip
def test_assignors_have_kafkas_names_long_or_short(given: str, names: tuple[str, ...]) -> None:
    config = ConsumerConfig.from_properties({"group.id": "g", "partition.assignment.strategy": given})
    assert config.member.assignors == names


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"group.id": ""}, "group.id is required to subscribe"),
        ({"group.instance.id": ""}, "group.instance.id must not be empty"),
        ({"partition.assignment.strategy": "sticky"}, "'sticky' is not one of range, roundrobin, cooperative-sticky"),
        ({"heartbeat.interval.ms": "45000"}, "heartbeat.interval.ms must be below session.timeout.ms"),
        ({"auto.offset.reset": "smallest"}, "'smallest' is not one of earliest, latest, none"),
        ({"zookeeper.connect": "h:1"}, "zookeeper.connect: no such configuration"),
        ({"value.deserializer": "xml"}, "value.deserializer: 'xml' is not one of bytes"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ConsumerConfig.from_properties({"group.id": "g", **options})
