"""TxnOffsetCommit and WriteTxnMarkers on the wire: which offsets count, and the error codes of each version."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.groups.group_requests import Forbids, fetch, found

Make = Callable[..., Harness]
NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
VERSIONS = range(5)

Commit = codec.request(ApiKey.TXN_OFFSET_COMMIT)
CommitTopic = Commit.TxnOffsetCommitRequestTopic
Markers = codec.request(ApiKey.WRITE_TXN_MARKERS)


@pytest.fixture
def broker(harness: Make) -> Harness:
    """The broker leads both partitions of topic t, and coordinates all groups."""
    made = harness()
    made.lead("t", 2)
    made.lead("__consumer_offsets")
    return made


def commit(broker: Harness, version: int, offsets: dict[tuple[str, int], int], **fields: Any) -> list[int]:
    topics = [
        CommitTopic(
            name=topic,
            partitions=[
                CommitTopic.TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_leader_epoch=-1,
                    committed_metadata="m",
                )
            ],
        )
        for (topic, partition), offset in offsets.items()
    ]  # fmt: skip
    request = Commit(
        **{"transactional_id": "x", "group_id": "g", "producer_id": 7, "producer_epoch": 0, "generation_id": -1,
           "member_id": "", "group_instance_id": None, "topics": topics, **fields}
    )  # fmt: skip
    answer = broker.ask(ApiKey.TXN_OFFSET_COMMIT, version, request)
    return [named.partitions[0].error_code for named in answer.topics]


def end(broker: Harness, *, is_committed: bool) -> None:
    marker_of = Markers.WritableTxnMarker
    topic = marker_of.WritableTxnMarkerTopic(name="__consumer_offsets", partition_indexes=[0])
    marker = marker_of(
        producer_id=7, producer_epoch=0, transaction_result=is_committed, topics=[topic], coordinator_epoch=0
    )
    answer = broker.ask(ApiKey.WRITE_TXN_MARKERS, 1, Markers(markers=[marker]))
    assert answer.markers[0].topics[0].partitions[0].error_code == NONE


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("is_committed", [True, False])
def test_offsets_count_after_a_commit_marker_only(broker: Harness, version: int, is_committed: bool) -> None:
    """The receiver of markers notifies the group coordinator."""
    assert commit(broker, version, {("t", 0): 7, ("t", 5): 1, ("x", 0): 1}) == [NONE, UNKNOWN, UNKNOWN]
    assert found(fetch(broker, 7, ("t", 0))) == [(-1, "", NONE)]
    end(broker, is_committed=is_committed)
    assert found(fetch(broker, 7, ("t", 0))) == [(7, "m", NONE) if is_committed else (-1, "", NONE)]


def test_members_are_known_from_version_3_on(broker: Harness) -> None:
    """From version 3 on, a request names the member and its generation, and both must be current."""
    for version in (3, 4):
        stranger = {"member_id": "stranger", "generation_id": 1}
        assert commit(broker, version, {("t", 0): 7}, **stranger) == [ErrorCode.UNKNOWN_MEMBER_ID]


@pytest.mark.parametrize("version", VERSIONS)
def test_old_producers_do_not_hear_of_loading(broker: Harness, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Producers before Kafka 2.0 would crash."""
    manager = broker.services.coordinator._manager
    monkeypatch.setattr(manager, "refusal", lambda *_, **__: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    expected = ErrorCode.COORDINATOR_NOT_AVAILABLE if version < 2 else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert commit(broker, version, {("t", 0): 7}) == [expected]


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        ("TransactionalId", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("Group", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("Topic", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_each_resource_is_asked_for(broker: Harness, resource: str, code: ErrorCode) -> None:
    broker.services.authorizer = Forbids(resource)
    assert commit(broker, 3, {("t", 0): 7}) == [code]
