"""Inter-broker requests that a client sends: with a forged controller epoch, and on listeners for clients."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.security.authorizer import NoAuthorizer
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.registry.client.errors import SessionLost
from tests.kafka_zk.broker.conftest import (
    FakeControllerEpochs,
    Harness,
    batch,
    leader_and_isr,
    update_metadata,
)
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

Make = Callable[..., Harness]

FORGED = 2**31 - 1
STALE = ErrorCode.STALE_CONTROLLER_EPOCH
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def stop_replica(epoch: int) -> Any:
    request = codec.request(ApiKey.STOP_REPLICA)
    state = request.StopReplicaTopicState.StopReplicaPartitionState(
        partition_index=0, leader_epoch=-2, delete_partition=True
    )
    topic = request.StopReplicaTopicState(topic_name="t", partition_states=[state])
    return request(controller_id=0, controller_epoch=epoch, broker_epoch=-1, topic_states=[topic])


def controllers_requests(epoch: int, topic_id: uuid.UUID) -> list[tuple[ApiKey, int, Any]]:
    fields = {"controller_epoch": epoch, "leader": 0, "leader_epoch": 3, "isr": [0], "replicas": [0]}
    requests = [
        (ApiKey.LEADER_AND_ISR, 7, leader_and_isr("t", topic_id, 1, fields)),
        (ApiKey.UPDATE_METADATA, 8, update_metadata("t", topic_id, 1, fields)),
        (ApiKey.STOP_REPLICA, 4, stop_replica(epoch)),
    ]
    for _, _, request in requests:
        request.controller_epoch = epoch
    return requests


@pytest.fixture
def epochs() -> FakeControllerEpochs:
    return FakeControllerEpochs(1)


@pytest.fixture
def broker(harness: Make, epochs: FakeControllerEpochs) -> Harness:
    made = harness()
    made.services.controller_epochs = epochs  # type: ignore[assignment]
    return made


def test_an_epoch_that_was_never_given_out_changes_nothing(broker: Harness) -> None:
    """If the broker adopted the epoch, it would ignore its controller until a restart."""
    topic_id = broker.lead("t")
    for api_key, version, request in controllers_requests(FORGED, topic_id):
        assert broker.ask(api_key, version, request).error_code == STALE
    assert broker.services.replicas.controller_epoch == 1
    assert produced(broker, produce(batch(b"x"))).error_code == 0
    assert broker.lead_again("t", topic_id, leader_epoch=1) == 0


def test_the_log_has_one_line_about_a_peer_that_forges(broker: Harness) -> None:
    topic_id = broker.lead("t")
    with capturedLogs() as logged:
        for epoch in (FORGED, FORGED - 1):
            for api_key, version, request in controllers_requests(epoch, topic_id):
                broker.ask(api_key, version, request)
    assert len([event for event in logged if "was elected" in (formatEvent(event) or "")]) == 1


def test_a_newer_controller_is_obeyed_once_zookeeper_confirms_it(broker: Harness, epochs: FakeControllerEpochs) -> None:
    topic_id = broker.lead("t")
    epochs.stored = 2
    for api_key, version, request in controllers_requests(2, topic_id):
        assert broker.ask(api_key, version, request).error_code == 0
    assert broker.services.replicas.controller_epoch == 2


def test_while_zookeeper_cannot_say_the_connection_ends_and_nothing_changes(
    broker: Harness, epochs: FakeControllerEpochs
) -> None:
    topic_id = broker.lead("t")
    epochs.failure = SessionLost("/controller_epoch")
    for api_key, version, request in controllers_requests(2, topic_id):
        failures: list[Failure] = []
        broker.start(api_key, version, request).addErrback(failures.append)
        assert failures[0].check(ProtocolError) and "cannot be confirmed" in str(failures[0].value)
    assert broker.services.replicas.controller_epoch == 1
    assert TopicPartition("t", 0) in broker.services.replicas.partitions


def test_brokers_requests_are_refused_on_a_listener_of_clients(broker: Harness) -> None:
    topic_id = broker.lead("t")
    broker.services.authorizer = NoAuthorizer(["INTERNAL"])
    for api_key, version, request in controllers_requests(1, topic_id):
        assert broker.ask(api_key, version, request).error_code == REFUSED
    for api_key, version in ((ApiKey.CONTROLLED_SHUTDOWN, 3), (ApiKey.ALTER_PARTITION, 3)):
        request = codec.request(api_key)
        fields: dict[str, Any] = {"topics": []} if api_key is ApiKey.ALTER_PARTITION else {}
        assert broker.ask(api_key, version, request(broker_id=0, broker_epoch=1, **fields)).error_code == REFUSED
    assert produced(broker, produce(batch(b"x"))).error_code == 0
    broker.services.authorizer = NoAuthorizer(["PLAINTEXT", "CONTROL"])
    assert broker.lead_again("t", topic_id, leader_epoch=1) == 0
