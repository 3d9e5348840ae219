"""FindCoordinator, and the offsets topic that it creates."""

import logging

import pytest

from kafka_zk.broker.security.authorizer import NoAuthorizer
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.groups.group_requests import (
    NONE,
    NOT_AVAILABLE,
    UNKNOWN,
    Forbids,
    Make,
    broker,
)

__all__ = ["broker"]  # a fixture


def find(broker: Harness, version: int, key_type: int) -> tuple[int, int, str, int]:
    request = codec.request(ApiKey.FIND_COORDINATOR)(key="g", key_type=key_type, coordinator_keys=["g"])
    answer = broker.ask(ApiKey.FIND_COORDINATOR, version, request)
    node = answer.coordinators[0] if version >= 4 else answer
    return node.error_code, node.node_id, node.host, node.port


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_the_leader_of_the_groups_partition_is_named(broker: Harness, version: int) -> None:
    """Without a coordinator, the response has the fields of a missing node, because old clients read them whatever the
    error.
    """
    assert find(broker, version, 0) == (NOT_AVAILABLE, -1, "", -1)
    broker.lead("__consumer_offsets", 3)
    assert find(broker, version, 0) == (NONE, 0, "localhost", 9092)
    broker.services.authorizer = Forbids("Group")
    assert find(broker, version, 0)[0] == ErrorCode.GROUP_AUTHORIZATION_FAILED
    broker.services.authorizer = NoAuthorizer({"PLAINTEXT"})
    broker.services.metadata.brokers.clear()
    assert find(broker, version, 0) == (NOT_AVAILABLE, -1, "", -1)


def test_who_asks_first_has_the_offsets_topic_created(broker: Harness, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kafka_zk.broker.coordinator.internal_topic"):
        assert find(broker, 4, 0)[0] == NOT_AVAILABLE
    assignment, _, properties = broker.topics.created["__consumer_offsets"]
    assert assignment == {partition: [0] for partition in range(50)}
    assert properties == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_the_offsets_topic_has_three_replicas_by_default(broker: Harness, caplog: pytest.LogCaptureFixture) -> None:
    with_brokers(broker, 4)
    with caplog.at_level(logging.WARNING, "kafka_zk.broker.coordinator.internal_topic"):
        assert find(broker, 4, 0)[0] == NOT_AVAILABLE
    assignment, _, _ = broker.topics.created["__consumer_offsets"]
    assert {len(set(replicas)) for replicas in assignment.values()} == {3}
    assert not caplog.records


def test_the_offsets_topic_waits_for_as_many_brokers_as_are_configured(
    harness: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-115. The reason why the topic cannot be created is logged once, however often clients send the request."""
    broker = harness(offsets_topic_replication_factor="3")
    broker.lead("t")
    request = codec.request(ApiKey.METADATA)
    wanted = request(topics=[request.MetadataRequestTopic(name="__consumer_offsets")], allow_auto_topic_creation=True)
    with caplog.at_level(logging.WARNING, "kafka_zk.broker.coordinator.internal_topic"):
        for _ in range(3):
            assert find(broker, 4, 0)[0] == NOT_AVAILABLE
        assert broker.ask(ApiKey.METADATA, 9, wanted).topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert not broker.topics.created
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    with_brokers(broker, 3)
    assert broker.ask(ApiKey.METADATA, 9, wanted).topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert {len(replicas) for replicas in broker.topics.created["__consumer_offsets"][0].values()} == {3}


def with_brokers(broker: Harness, count: int) -> None:
    """Register this number of live brokers."""
    (known,) = broker.services.metadata.brokers.values()
    for broker_id in range(count):
        broker.services.metadata.brokers[broker_id] = known._replace(broker_id=broker_id)


@pytest.mark.parametrize("created", [True, False])
def test_whoever_asks_for_its_metadata_has_the_offsets_topic_created(harness: Make, created: bool) -> None:
    """The topic has its own configuration; it is created only if topics may be created automatically, as in Kafka 3.9.
    """
    broker = harness(auto_create_topics_enable=str(created).lower())
    broker.lead("t")
    request = codec.request(ApiKey.METADATA)
    wanted = [request.MetadataRequestTopic(name="__consumer_offsets", topic_id=None)]
    for may_create in (False, True):
        assert not broker.topics.created
        answer = broker.ask(ApiKey.METADATA, 9, request(topics=wanted, allow_auto_topic_creation=may_create))
        expected = ErrorCode.LEADER_NOT_AVAILABLE if may_create and created else UNKNOWN
        assert answer.topics[0].error_code == expected
    properties = [each for _, _, each in broker.topics.created.values()]
    assert [each["cleanup.policy"] for each in properties] == ["compact"] * created


def test_there_is_no_coordinator_of_transactions_and_share_groups(broker: Harness) -> None:
    assert find(broker, 3, 1)[0] == NOT_AVAILABLE
    assert [find(broker, version, 2)[0] for version in (5, 6)] == [ErrorCode.INVALID_REQUEST, NOT_AVAILABLE]
    assert find(broker, 4, 9)[0] == ErrorCode.INVALID_REQUEST
