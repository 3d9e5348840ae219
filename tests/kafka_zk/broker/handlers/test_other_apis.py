"""ListOffsets, InitProducerId, FindCoordinator, DescribeCluster, ApiVersions, and the controller's requests."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.broker.handlers.table import OFFERED_VERSIONS
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness, batch
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

Make = Callable[..., Harness]

KAFKA_3_9_1 = {
    0: 11, 1: 17, 2: 9, 3: 12, 4: 7, 5: 4, 6: 8, 7: 3, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5,
    14: 5, 15: 5, 16: 5, 17: 1, 18: 4, 19: 7, 20: 6, 21: 2, 22: 5, 23: 4, 24: 5, 25: 4, 26: 4, 27: 1,
    28: 4, 29: 3, 30: 3, 31: 3, 32: 4, 33: 2, 34: 2, 35: 4, 36: 2, 37: 3, 38: 3, 39: 2, 40: 2, 41: 3,
    42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 56: 3, 57: 1, 60: 1, 61: 0,
    65: 0, 66: 1, 67: 0, 68: 0, 69: 0,
}  # fmt: skip
"""API key -> the highest version that Kafka 3.9.1 offers with ZooKeeper; the lowest is 0. Envelope (58) is left out.
``tests/peers/test_api_versions.py`` compares with a real broker.
"""


def list_offsets(timestamp: int, *, partition: int = 0, twice: bool = False, count: int = 1) -> Any:
    request = codec.request(ApiKey.LIST_OFFSETS)
    topic = request.ListOffsetsTopic
    wanted = topic.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp=timestamp, max_num_offsets=count
    )
    return request(
        replica_id=-1, isolation_level=0, topics=[topic(name="t", partitions=[wanted] * (2 if twice else 1))]
    )


def listed(harness: Harness, request: Any, version: int = 7) -> Any:
    return harness.ask(ApiKey.LIST_OFFSETS, version, request).topics[0].partitions[0]


@pytest.fixture
def broker(harness: Make) -> Harness:
    """The broker leads ``t`` with records at 1,000, 2,000 and 1,500 ms."""
    made = harness()
    made.lead("t")
    for timestamp_ms in (1000, 2000, 1500):
        assert produced(made, produce(batch(b"x", timestamp_ms=timestamp_ms))).error_code == 0
    return made


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (-1, (3, -1)),
        (-2, (0, -1)),
        (-3, (1, 2000)),
        (0, (0, 1000)),
        (1001, (1, 2000)),
        (2000, (1, 2000)),
        (2001, (-1, -1)),
    ],
)
def test_offsets_are_found_by_time(broker: Harness, timestamp: int, found: tuple[int, int]) -> None:
    """The lookups are for the earliest offset, the latest, the largest timestamp, the first at or after a timestamp,
    and none.
    """
    answer = listed(broker, list_offsets(timestamp))
    assert (answer.offset, answer.timestamp) == found


def test_version_0_answers_with_a_list(broker: Harness) -> None:
    """0.8 clients expect a list that is never empty for -1 and -2."""
    assert list(listed(broker, list_offsets(-1), 0).old_style_offsets) == [3]
    assert list(listed(broker, list_offsets(-1, count=5), 0).old_style_offsets) == [3, 0]
    assert list(listed(broker, list_offsets(-2), 0).old_style_offsets) == [0]


def test_version_0_looks_at_when_files_changed(broker: Harness) -> None:
    """The end of the log counts as a record with the current time, so it precedes every future timestamp and follows
    every past one.
    """
    assert list(listed(broker, list_offsets(2**62, count=5), 0).old_style_offsets) == [3, 0]
    assert list(listed(broker, list_offsets(1, count=5), 0).old_style_offsets) == []


def test_list_offsets_errors(broker: Harness) -> None:
    """The cases are a special timestamp before its version, an unknown partition, and a duplicate partition."""
    assert listed(broker, list_offsets(-3), 6).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert listed(broker, list_offsets(-1, partition=5)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert listed(broker, list_offsets(-1, twice=True)).error_code == ErrorCode.INVALID_REQUEST


def test_version_0_answers_each_time_that_a_partition_is_named(broker: Harness) -> None:
    """Kafka does the same; only later versions refuse duplicates."""
    answer = broker.ask(ApiKey.LIST_OFFSETS, 0, list_offsets(-1, twice=True))
    results = answer.topics[0].partitions
    assert [(each.error_code, list(each.old_style_offsets)) for each in results] == [(0, [3])] * 2


def test_producer_ids_come_once_each(harness: Make) -> None:
    """The ids come from the block that the broker allocated."""
    broker = harness()
    request = codec.request(ApiKey.INIT_PRODUCER_ID)
    answers = [
        broker.ask(ApiKey.INIT_PRODUCER_ID, 4, request(transactional_id=None, transaction_timeout_ms=1))
        for _ in range(2)
    ]
    assert [(answer.producer_id, answer.producer_epoch) for answer in answers] == [(5000, 0), (5001, 0)]
    transactional = broker.ask(ApiKey.INIT_PRODUCER_ID, 4, request(transactional_id="x", transaction_timeout_ms=1))
    assert transactional.error_code == ErrorCode.NOT_COORDINATOR


def test_describe_cluster(broker: Harness) -> None:
    """The response has the brokers and the controller, and authorized operations only on request."""
    request = codec.request(ApiKey.DESCRIBE_CLUSTER)
    answer = broker.ask(ApiKey.DESCRIBE_CLUSTER, 1, request(endpoint_type=1))
    assert [node.broker_id for node in answer.brokers] == [0]
    wrong = broker.ask(ApiKey.DESCRIBE_CLUSTER, 1, request(endpoint_type=2))
    assert wrong.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_only_what_has_a_handler_is_offered_in_the_versions_of_kafka(harness: Make) -> None:
    """The versions never exceed those of Kafka 3.9.1 in ZooKeeper mode; a client must send a valid name (KIP-511)."""
    broker = harness()
    request = codec.request(ApiKey.API_VERSIONS)
    named = request(client_software_name="me", client_software_version="1.0")
    answer = broker.ask(ApiKey.API_VERSIONS, 3, named)
    offered = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    kafkas = {key: (0, highest) for key, highest in KAFKA_3_9_1.items()}
    assert offered == OFFERED_VERSIONS == kafkas, "a broker offers what KAFKA_3_9_1 lists, nothing else"
    unnamed = request(client_software_name="-", client_software_version="")
    assert broker.ask(ApiKey.API_VERSIONS, 3, unnamed).error_code == ErrorCode.INVALID_REQUEST


def test_requests_of_an_old_controller_do_not_count(broker: Harness) -> None:
    """The controller epoch fences a paused controller that wakes up; the broker epoch fences a request for an earlier
    start.
    """
    update = codec.request(ApiKey.UPDATE_METADATA)
    for epochs, code in (((0, 1), ErrorCode.STALE_CONTROLLER_EPOCH), ((1, 0), ErrorCode.STALE_BROKER_EPOCH)):
        request = update(
            controller_id=9, controller_epoch=epochs[0], broker_epoch=epochs[1], live_brokers=[], topic_states=[]
        )
        assert broker.ask(ApiKey.UPDATE_METADATA, 8, request).error_code == code
    assert list(broker.services.metadata.brokers) == [0]


def test_an_old_leader_epoch_does_not_count(harness: Make) -> None:
    """LeaderAndIsr with an old leader epoch changes nothing, nor does the current one again."""
    broker = harness()
    topic_id = broker.lead("t", leader_epoch=5)
    assert broker.lead_again("t", topic_id, leader_epoch=4) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.lead_again("t", topic_id, leader_epoch=5) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.lead_again("t", topic_id, leader_epoch=6) == ErrorCode.NONE
    assert next(iter(broker.services.replicas.partitions.values())).leader_epoch == 6


def test_another_topic_of_the_same_name_is_not_mixed_up(harness: Make) -> None:
    """A log keeps its topic id: LeaderAndIsr for another incarnation of the topic is refused."""
    broker = harness()
    broker.lead("t")
    assert broker.lead_again("t", uuids.random_topic_id(), leader_epoch=1) == ErrorCode.INCONSISTENT_TOPIC_ID
