"""No request that brokers or administrators need in a cluster with many partitions counts as malformed."""

from typing import Any

import pytest

from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey

PARTITIONS = 10_000  # the partitions of one broker and one topic, with three replicas each


def _alter_partition() -> Any:
    request = codec.request(ApiKey.ALTER_PARTITION)
    topic = request.TopicData
    partitions = [
        topic.PartitionData(
            partition_index=number,
            leader_epoch=1,
            new_isr_with_epochs=[topic.PartitionData.BrokerState(broker_id=id, broker_epoch=-1) for id in range(3)],
            leader_recovery_state=0,
            partition_epoch=1,
        )
        for number in range(PARTITIONS)
    ]
    return request(broker_id=1, broker_epoch=1, topics=[topic(topic_id=uuids.ZERO, partitions=partitions)])


def _alter_reassignments() -> Any:
    request = codec.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    topic = request.ReassignableTopic
    partitions = [
        topic.ReassignablePartition(partition_index=number, replicas=[0, 1, 2]) for number in range(PARTITIONS)
    ]
    return request(timeout_ms=1, topics=[topic(name="t", partitions=partitions)])


def _list_reassignments() -> Any:
    request = codec.request(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    topic = request.ListPartitionReassignmentsTopics(name="t", partition_indexes=list(range(PARTITIONS)))
    return request(timeout_ms=1, topics=[topic])


def _elect_leaders() -> Any:
    request = codec.request(ApiKey.ELECT_LEADERS)
    topic = request.TopicPartitions(topic="t", partitions=list(range(PARTITIONS)))
    return request(election_type=0, topic_partitions=[topic], timeout_ms=1)


def _write_markers() -> Any:
    request = codec.request(ApiKey.WRITE_TXN_MARKERS)
    marker = request.WritableTxnMarker
    topic = marker.WritableTxnMarkerTopic(name="t", partition_indexes=list(range(PARTITIONS)))
    ended = marker(producer_id=1, producer_epoch=0, transaction_result=True, topics=[topic], coordinator_epoch=0)
    return request(markers=[ended])


def _txn_offset_commit() -> Any:
    request = codec.request(ApiKey.TXN_OFFSET_COMMIT)
    topic = request.TxnOffsetCommitRequestTopic
    partition = topic.TxnOffsetCommitRequestPartition
    partitions = [
        partition(partition_index=number, committed_offset=1, committed_leader_epoch=-1, committed_metadata="")
        for number in range(PARTITIONS)
    ]
    return request(
        transactional_id="x", group_id="g", producer_id=1, producer_epoch=0, generation_id=-1, member_id="",
        group_instance_id=None, topics=[topic(name="t", partitions=partitions)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("api_key", "version", "request_of"),
    [
        (ApiKey.ALTER_PARTITION, 3, _alter_partition),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, _alter_reassignments),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, _list_reassignments),
        (ApiKey.ELECT_LEADERS, 2, _elect_leaders),
        (ApiKey.WRITE_TXN_MARKERS, 1, _write_markers),
        (ApiKey.TXN_OFFSET_COMMIT, 3, _txn_offset_commit),
    ],
)
def test_a_request_about_all_partitions_of_a_large_cluster_is_read(
    api_key: ApiKey, version: int, request_of: Any
) -> None:
    """A leader whose follower returns proposes an ISR for each partition that it leads with it."""
    body = bytes(codec.encode_body(request_of(), api_key, version))
    decoded = codec.decode_request(api_key, version, memoryview(body))
    assert bytes(codec.encode_body(decoded, api_key, version)) == body
