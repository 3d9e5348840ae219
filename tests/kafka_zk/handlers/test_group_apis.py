"""OffsetCommit, OffsetFetch, FindCoordinator, and the membership APIs that have no group behind them yet."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_zk.handlers.groups.group_membership import REMEMBERED_CLIENTS
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.errors import NoAuth
from kafka_zk.security.authorizer import AllowAll
from kafka_zk.storage.types import TopicPartition
from tests.kafka_zk.handlers.conftest import FakeOffsets, Harness

Make = Callable[..., Harness]

Commit = codec.request(ApiKey.OFFSET_COMMIT)
CommitTopic = Commit.OffsetCommitRequestTopic
Fetch = codec.request(ApiKey.OFFSET_FETCH)
FetchGroup = Fetch.OffsetFetchRequestGroup
NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def broker(harness: Make) -> Harness:
    """Leads both partitions of topic t."""
    made = harness(offset_metadata_max_bytes="5")
    made.lead("t", 2)
    return made


@pytest.fixture
def no_zookeeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(FakeOffsets, "failure", NoAuth("/consumers"))
    yield


class Forbids:
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
        group_id=group, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, retention_time_ms=-1,
        topics=topics,
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


def test_version_0_stores_in_zookeeper_and_reads_from_there(broker: Harness) -> None:
    """Metadata are dropped, as Kafka does; what is not stored and what does not exist look the same."""
    assert commit(broker, 0, {("t", 0): 7, ("t", 5): 1, ("x", 0): 1}) == [NONE, UNKNOWN, UNKNOWN]
    assert FakeOffsets.stored["g"] == {TopicPartition("t", 0): 7}
    answer = fetch(broker, 0, ("t", 0), ("t", 1), ("x", 0))
    assert found(answer) == [(7, "", NONE), (-1, "", UNKNOWN), (-1, "", UNKNOWN)]


def test_long_metadata_are_refused(broker: Harness) -> None:
    assert commit(broker, 0, {("t", 0): 7}, metadata="123456") == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert commit(broker, 0, {("t", 0): 7}, metadata=None) == [NONE]


@pytest.mark.parametrize("group", ["", "a/b", "..", "a\n"])
def test_a_group_that_can_have_no_znodes_is_invalid(broker: Harness, group: str) -> None:
    assert commit(broker, 0, {("t", 0): 7}, group=group) == [ErrorCode.INVALID_GROUP_ID]
    assert found(fetch(broker, 0, ("t", 0), group=group)) == [(-1, "", ErrorCode.INVALID_GROUP_ID)]


def test_a_group_that_no_consumer_could_join_is_stored_as_kafka_stores_it(broker: Harness) -> None:
    assert commit(broker, 0, {("t", 0): 7}, group="my group") == [NONE]
    assert found(fetch(broker, 0, ("t", 0), group="my group")) == [(7, "", NONE)]


@pytest.mark.usefixtures("no_zookeeper")
def test_zookeepers_refusal_is_an_error_of_the_partition(broker: Harness) -> None:
    assert commit(broker, 0, {("t", 0): 7, ("x", 0): 7}) == [ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN]
    assert found(fetch(broker, 0, ("t", 0))) == [(-1, "", ErrorCode.UNKNOWN_SERVER_ERROR)]


@pytest.mark.parametrize("version", [1, 2, 5, 9])
def test_later_commits_find_no_coordinator(broker: Harness, version: int) -> None:
    assert commit(broker, version, {("t", 0): 7, ("x", 0): 1}) == [NOT_AVAILABLE, UNKNOWN]
    assert not FakeOffsets.stored.get("g")


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
def test_later_fetches_find_nothing_stored(broker: Harness, version: int) -> None:
    """-1, "" and no error: only then do old tools look into ZooKeeper."""
    commit(broker, 0, {("t", 0): 7})
    answer = fetch(broker, version, ("t", 0), ("x", 3))
    assert found(answer) == [(-1, "", NONE), (-1, "", NONE)]
    if version >= 2:
        assert answer.error_code == NONE
        assert found(fetch(broker, version)) == []


@pytest.mark.parametrize("version", [0, 1, 2, 8])
def test_a_forbidden_group_is_told_where_the_version_has_room(broker: Harness, version: int) -> None:
    broker.services.authorizer = Forbids("Group")
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert commit(broker, version, {("t", 0): 7}) == [refused]
    answer = fetch(broker, version, ("t", 0))
    if version >= 2:
        assert (found(answer), answer.error_code) == ([], refused)
    else:
        assert found(answer) == [(-1, "", refused)]


@pytest.mark.parametrize("version", [0, 1, 8])
def test_a_forbidden_topic_is_an_error_of_its_partitions(broker: Harness, version: int) -> None:
    broker.services.authorizer = Forbids("Topic")
    assert commit(broker, version, {("t", 0): 7}) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert found(fetch(broker, version, ("t", 0))) == [(-1, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]


def find(broker: Harness, version: int, key_type: int) -> tuple[int, int, str, int]:
    request = codec.request(ApiKey.FIND_COORDINATOR)(key="g", key_type=key_type, coordinator_keys=["g"])
    answer = broker.ask(ApiKey.FIND_COORDINATOR, version, request)
    node = answer.coordinators[0] if version >= 4 else answer
    return node.error_code, node.node_id, node.host, node.port


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_a_live_broker_is_named_for_a_group(broker: Harness, version: int) -> None:
    """Without one: the fields of a node that is none, which old clients read whatever the error says."""
    assert find(broker, version, 0) == (NONE, 0, "localhost", 9092)
    broker.services.authorizer = Forbids("Group")
    assert find(broker, version, 0)[0] == ErrorCode.GROUP_AUTHORIZATION_FAILED
    broker.services.authorizer = AllowAll()
    broker.services.metadata.brokers.clear()
    assert find(broker, version, 0) == (NOT_AVAILABLE, -1, "", -1)


def test_there_is_no_coordinator_of_transactions_and_share_groups(broker: Harness) -> None:
    assert find(broker, 3, 1)[0] == NOT_AVAILABLE
    assert [find(broker, version, 2)[0] for version in (5, 6)] == [ErrorCode.INVALID_REQUEST, NOT_AVAILABLE]
    assert find(broker, 4, 9)[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("newest", [True, False])
def test_nobody_can_be_a_member_of_a_broker_side_group_yet(broker: Harness, newest: bool) -> None:
    join, sync = codec.request(ApiKey.JOIN_GROUP), codec.request(ApiKey.SYNC_GROUP)
    heartbeat, leave = codec.request(ApiKey.HEARTBEAT), codec.request(ApiKey.LEAVE_GROUP)
    instance = {"member_id": "m", "group_instance_id": None}
    asked: dict[ApiKey, tuple[int, Any]] = {
        ApiKey.JOIN_GROUP: (
            9,
            join(
                group_id="g", session_timeout_ms=1, rebalance_timeout_ms=1, protocol_type="consumer", protocols=[],
                reason=None, **instance,
            ),
        ),
        ApiKey.SYNC_GROUP: (
            5, sync(group_id="g", generation_id=1, protocol_type=None, protocol_name=None, assignments=[], **instance)
        ),
        ApiKey.HEARTBEAT: (4, heartbeat(group_id="g", generation_id=1, **instance)),
        ApiKey.LEAVE_GROUP: (5, leave(group_id="g", member_id="m", members=[])),
    }  # fmt: skip
    for api_key, (version, request) in asked.items():
        assert broker.ask(api_key, version if newest else 0, request).error_code == NOT_AVAILABLE


def test_the_log_says_once_for_each_client_that_it_cannot_join(
    broker: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """It tries again several times a second, and some clients do not say why they get nothing."""
    join = codec.request(ApiKey.JOIN_GROUP)

    def ask(group: str) -> None:
        request = join(
            group_id=group, session_timeout_ms=1, rebalance_timeout_ms=1, protocol_type="consumer", protocols=[],
            reason=None, member_id="", group_instance_id=None,
        )  # fmt: skip
        assert broker.ask(ApiKey.JOIN_GROUP, 9, request).error_code == NOT_AVAILABLE

    with caplog.at_level(logging.INFO, "kafka_zk.handlers.groups.group_membership"):
        for group in ("g", "g", "h", "g"):
            ask(group)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert caplog.messages[0].startswith("client client at 127.0.0.1 cannot join group g and will go on trying")
    for number in range(REMEMBERED_CLIENTS + 5):
        ask(str(number))
    assert len(broker.services.refused_joins) == REMEMBERED_CLIENTS
