"""Versions of the requests among brokers, by their age."""

import pytest

from kafka_zk.config.inter_broker_protocol import BadProtocolVersion, parse
from kafka_zk.config.kafka_config import InvalidBrokerConfig, KafkaConfig


def test_versions_are_ordered_by_age() -> None:
    """A release without a step is its last step."""
    texts = ["0.8.2", "0.10.2", "1.0", "2.6", "2.7-IV1", "2.7-IV2", "2.7", "2.8-IV0", "2.8", "3.0", "3.9-IV0", "3.9"]
    assert [parse(text) for text in texts] == sorted(parse(text) for text in texts)
    assert parse("2.7.1") == parse("2.7")


@pytest.mark.parametrize(
    ("text", "alters", "ids"),
    [
        ("2.6", False, False),
        ("2.7-IV1", False, False),
        ("2.7", True, False),
        ("2.8-IV0", True, True),
        ("3.9", True, True),
    ],
)
def test_what_a_version_can_do(text: str, alters: bool, ids: bool) -> None:
    assert (parse(text).alters_partitions, parse(text).knows_topic_ids) == (alters, ids)


@pytest.mark.parametrize("text", ["", "3", "4.0", "3.10", "0.7.0", "3.9-IV", "3.9-IVx", "latest"])
def test_other_texts_are_refused_at_the_start(text: str) -> None:
    with pytest.raises(BadProtocolVersion):
        parse(text)
    properties = {"zookeeper.connect": "z:1", "broker.id": "0", "log.dirs": "x", "inter.broker.protocol.version": text}
    with pytest.raises(InvalidBrokerConfig, match=r"inter\.broker\.protocol\.version=.*allowed is"):
        KafkaConfig.from_properties(properties)
