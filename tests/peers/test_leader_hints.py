"""KIP-951: our responses to Produce and Fetch, from a broker that does not lead the partition, equal those of Apache
Kafka 3.9.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.message_dicts import as_dict
from tests.peers import targets, wire_probe
from tests.peers.processes import wait_until
from tests.peers.targets import Target

pytestmark = pytest.mark.peers

_FOLLOWED, _ELSEWHERE = "followed", "elsewhere"
"""Topics that broker 0 leads: broker 1 follows one and has no replica of the other."""

_LEADERS, _SENT_AWAY = 0, 1
"""Broker ids."""

_METADATA_TIMEOUT_S = 20


class Running(NamedTuple):
    """A cluster, and the ids of its topics by name."""

    cluster: Target
    topic_ids: dict[str, uuid.UUID]


def _topic_ids(cluster: Target) -> dict[str, uuid.UUID]:
    """The ids of both topics, as soon as the second broker knows them."""
    wait_until(lambda: len(_known_topic_ids(cluster)) == 2, _METADATA_TIMEOUT_S, "both topics at the second broker")
    return _known_topic_ids(cluster)


def _known_topic_ids(cluster: Target) -> dict[str, uuid.UUID]:
    request = codec.request(ApiKey.METADATA)
    message = request(
        topics=[request.MetadataRequestTopic(name=name) for name in (_FOLLOWED, _ELSEWHERE)],
        allow_auto_topic_creation=False,
    )
    answer = wire_probe.ask(cluster.ports[_SENT_AWAY], ApiKey.METADATA, 12, message)
    return {topic.name: topic.topic_id for topic in answer.topics if topic.error_code == ErrorCode.NONE}


@pytest.fixture(scope="module")
def running(peer_zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """Both targets; their second brokers know the topics."""
    found: dict[str, Running] = {}
    try:
        for name in targets.NAMES:
            folder = tmp_path_factory.mktemp(name)
            cluster = targets.start(name, peer_zookeeper, folder, broker_count=2, chroot=f"hints-{name}")
            found[name] = Running(cluster, {})
            cluster.create_assigned_topic(_FOLLOWED, [[_LEADERS, _SENT_AWAY]])
            cluster.create_assigned_topic(_ELSEWHERE, [[_LEADERS]])
            found[name].topic_ids.update(_topic_ids(cluster))
        yield found
    finally:
        for each in found.values():
            each.cluster.stop()


def _produced(running: Running, version: int, topic: str) -> Any:
    request = codec.request(ApiKey.PRODUCE)
    data = request.TopicProduceData
    builder = RecordBatchBuilder()
    builder.append(0, None, b"x")
    partition = data.PartitionProduceData(index=0, records=bytes(builder.build()))
    message = request(
        transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data(name=topic, partition_data=[partition])]
    )
    return wire_probe.ask(running.cluster.ports[_SENT_AWAY], ApiKey.PRODUCE, version, message)


def _fetched(running: Running, version: int, topic: str, epoch: int) -> Any:
    request = codec.request(ApiKey.FETCH)
    wanted = request.FetchTopic
    partition = wanted.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=epoch, last_fetched_epoch=-1,
        log_start_offset=-1,
    )  # fmt: skip
    message = request(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=1000, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[wanted(topic_id=running.topic_ids[topic], partitions=[partition])], forgotten_topics_data=[],
        rack_id="",
    )  # fmt: skip
    return wire_probe.ask(running.cluster.ports[_SENT_AWAY], ApiKey.FETCH, version, message)


def _hint(running: Running, result: Any, endpoints: Any) -> tuple[Any, ...]:
    """The error, the leader, and the endpoints with broker ids for their ports."""
    ports = running.cluster.ports
    addresses = [(each.node_id, each.host, ports.index(each.port), each.rack) for each in endpoints or ()]
    leader = None if result.current_leader is None else as_dict(result.current_leader)
    return result.error_code, leader, addresses


@pytest.mark.parametrize("topic", [_FOLLOWED, _ELSEWHERE])
@pytest.mark.parametrize("version", [9, 10, 11])
def test_produce_names_the_leader_as_apache_kafka_does(running: dict[str, Running], version: int, topic: str) -> None:
    hints = []
    for each in running.values():
        answer = _produced(each, version, topic)
        (result,) = answer.responses[0].partition_responses
        hints.append(_hint(each, result, answer.node_endpoints))
    assert hints[0] == hints[1]
    assert hints[0][0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bool(hints[0][2]) is (version >= 10)


@pytest.mark.parametrize("topic", [_FOLLOWED, _ELSEWHERE])
@pytest.mark.parametrize(("version", "epoch"), [(15, -1), (16, -1), (17, -1), (16, 0), (17, 7)])
def test_fetch_names_the_leader_as_apache_kafka_does(
    running: dict[str, Running], version: int, epoch: int, topic: str
) -> None:
    """A follower that the client may read from gives no hint."""
    hints = []
    for each in running.values():
        answer = _fetched(each, version, topic, epoch)
        (result,) = answer.responses[0].partitions
        hints.append(_hint(each, result, answer.node_endpoints))
    assert hints[0] == hints[1]
    assert bool(hints[0][2]) is (version >= 16 and topic == _ELSEWHERE)
