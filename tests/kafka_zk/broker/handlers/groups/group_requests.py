"""Requests about the groups that a broker coordinates."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.broker.security.authorizer import Authorizer
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext
from tests.kafka_zk.broker.conftest import Harness

Make = Callable[..., Harness]
Commit = codec.request(ApiKey.OFFSET_COMMIT)
CommitTopic = Commit.OffsetCommitRequestTopic
Fetch = codec.request(ApiKey.OFFSET_FETCH)
FetchGroup = Fetch.OffsetFetchRequestGroup
NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def broker(harness: Make) -> Harness:
    """The broker leads both partitions of topic t."""
    made = harness(offset_metadata_max_bytes="5")
    made.lead("t", 2)
    return made


class Forbids(Authorizer):
    """An authorizer that forbids one type of resource."""

    def __init__(self, resource_type: str) -> None:
        self.resource_type = resource_type

    def authorize(self, context: RequestContext, operation: Any, resource: Any) -> bool:
        return bool(resource.type != self.resource_type)


def commit(broker: Harness, version: int, offsets: dict[tuple[str, int], int], **fields: Any) -> list[int]:
    group, metadata = fields.get("group", "g"), fields.get("metadata", "m")
    topics = [
        CommitTopic(
            name=topic,
            partitions=[
                CommitTopic.OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_leader_epoch=-1,
                    commit_timestamp=-1, committed_metadata=metadata,
                )
            ],
        )
        for (topic, partition), offset in offsets.items()
    ]  # fmt: skip
    request = Commit(
        group_id=group, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None,
        retention_time_ms=fields.get("retention_ms", -1), topics=topics,
    )  # fmt: skip
    answer = broker.ask(ApiKey.OFFSET_COMMIT, version, request)
    return [named.partitions[0].error_code for named in answer.topics]


def fetch(broker: Harness, version: int, *partitions: tuple[str, int], group: str = "g") -> Any:
    topic_of, group_topic_of = Fetch.OffsetFetchRequestTopic, FetchGroup.OffsetFetchRequestTopics
    topics = [topic_of(name=topic, partition_indexes=[number]) for topic, number in partitions]
    named = [group_topic_of(name=topic, partition_indexes=[number]) for topic, number in partitions]
    request = Fetch(
        group_id=group,
        topics=topics if partitions else None,
        groups=[FetchGroup(group_id=group, member_id=None, member_epoch=-1, topics=named if partitions else None)],
        require_stable=False,
    )
    answer = broker.ask(ApiKey.OFFSET_FETCH, version, request)
    return answer.groups[0] if version >= 8 else answer


def found(answer: Any) -> list[tuple[int, str, int]]:
    return [
        (partition.committed_offset, partition.metadata, partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    ]
