"""The group APIs: ZooKeeper's offsets, and the groups that the broker itself coordinates."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.security.authorizer import Authorizer, NoAuthorizer
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.client.errors import NoAuth
from tests.kafka_zk.broker.conftest import FakeOffsets, Harness, update_metadata

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


def test_an_offset_that_an_acl_hides_is_an_error_of_its_partition_only(
    broker: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit(broker, 0, {("t", 0): 7, ("t", 1): 8}) == [NONE, NONE]
    monkeypatch.setattr(FakeOffsets, "hidden", frozenset({TopicPartition("t", 0)}))
    FakeOffsets.stored["g"].pop(TopicPartition("t", 0))
    assert found(fetch(broker, 0, ("t", 0), ("t", 1))) == [(-1, "", ErrorCode.UNKNOWN_SERVER_ERROR), (8, "", NONE)]


@pytest.mark.usefixtures("no_zookeeper")
def test_zookeepers_refusal_is_an_error_of_the_partition(broker: Harness) -> None:
    assert commit(broker, 0, {("t", 0): 7, ("x", 0): 7}) == [ErrorCode.UNKNOWN_SERVER_ERROR, UNKNOWN]
    assert found(fetch(broker, 0, ("t", 0))) == [(-1, "", ErrorCode.UNKNOWN_SERVER_ERROR)]


@pytest.mark.parametrize("version", [1, 2, 5, 9])
def test_later_versions_commit_to_the_coordinator(broker: Harness, version: int) -> None:
    broker.lead("__consumer_offsets", 3)
    assert commit(broker, version, {("t", 0): 7, ("x", 0): 1}) == [NONE, UNKNOWN]
    assert not FakeOffsets.stored.get("g")
    assert found(fetch(broker, version, ("t", 0), ("t", 1))) == [(7, "m", NONE), (-1, "", NONE)]
    if version >= 2:
        assert found(fetch(broker, version)) == [(7, "m", NONE)]


def test_how_long_an_offset_is_kept_is_said_by_old_versions(broker: Harness) -> None:
    broker.lead("__consumer_offsets")
    assert commit(broker, 2, {("t", 0): 7}, retention_ms=2**63 - 1) == [NONE]
    assert commit(broker, 2, {("t", 1): 8}, retention_ms=0) == [NONE]
    ensureDeferred(broker.services.coordinator.offsets.remove_expired())
    assert found(fetch(broker, 2)) == [(7, "m", NONE)]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 9])
def test_what_the_coordinator_has_not_is_nothing_without_an_error(broker: Harness, version: int) -> None:
    """-1 and "": only then do old tools look into ZooKeeper."""
    broker.lead("__consumer_offsets")
    commit(broker, 0, {("t", 0): 7})
    answer = fetch(broker, version, ("t", 0), ("x", 3))
    assert found(answer) == [(-1, "", NONE), (-1, "", NONE)]
    if version >= 2:
        assert answer.error_code == NONE
        assert found(fetch(broker, version)) == []


@pytest.mark.parametrize("version", [1, 2, 8])
def test_a_broker_that_is_not_the_coordinator_says_so(broker: Harness, version: int) -> None:
    assert commit(broker, version, {("t", 0): 7}) == [ErrorCode.NOT_COORDINATOR]
    answer = fetch(broker, version, ("t", 0))
    if version >= 2:
        assert (found(answer), answer.error_code) == ([], ErrorCode.NOT_COORDINATOR)
    else:
        assert found(answer) == [(-1, "", ErrorCode.NOT_COORDINATOR)]


def test_offsets_of_deleted_partitions_are_forgotten(broker: Harness) -> None:
    broker.lead("__consumer_offsets")
    commit(broker, 9, {("t", 0): 7, ("t", 1): 8})
    fields = {"controller_epoch": 1, "leader": -2, "leader_epoch": 0, "isr": [0], "replicas": [0]}
    topic_id = broker.services.metadata.topic_ids["t"]
    broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("t", topic_id, 1, fields))
    assert found(fetch(broker, 9)) == [(8, "m", NONE)]


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
    broker.lead("__consumer_offsets")
    broker.services.authorizer = Forbids("Topic")
    assert commit(broker, version, {("t", 0): 7}) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert found(fetch(broker, version, ("t", 0))) == [(-1, "", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]


def find(broker: Harness, version: int, key_type: int) -> tuple[int, int, str, int]:
    request = codec.request(ApiKey.FIND_COORDINATOR)(key="g", key_type=key_type, coordinator_keys=["g"])
    answer = broker.ask(ApiKey.FIND_COORDINATOR, version, request)
    node = answer.coordinators[0] if version >= 4 else answer
    return node.error_code, node.node_id, node.host, node.port


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_the_leader_of_the_groups_partition_is_named(broker: Harness, version: int) -> None:
    """Without one: the fields of a node that is none, which old clients read whatever the error says."""
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
    """KIP-115. What keeps it from being created is told once, however often clients ask."""
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
    """So many live."""
    (known,) = broker.services.metadata.brokers.values()
    for broker_id in range(count):
        broker.services.metadata.brokers[broker_id] = known._replace(broker_id=broker_id)


@pytest.mark.parametrize("created", [True, False])
def test_whoever_asks_for_its_metadata_has_the_offsets_topic_created(harness: Make, created: bool) -> None:
    """With its own configuration, if topics may be created so; as Kafka 3.9."""
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


def membership(broker: Harness, newest: bool) -> dict[ApiKey, Any]:
    """The answers to one request of each, for a member that nobody knows."""
    join, sync = codec.request(ApiKey.JOIN_GROUP), codec.request(ApiKey.SYNC_GROUP)
    heartbeat, leave = codec.request(ApiKey.HEARTBEAT), codec.request(ApiKey.LEAVE_GROUP)
    instance = {"member_id": "m", "group_instance_id": None}
    asked: dict[ApiKey, tuple[int, Any]] = {
        ApiKey.JOIN_GROUP: (
            9,
            join(
                group_id="g", session_timeout_ms=6000, rebalance_timeout_ms=1, protocol_type="consumer", protocols=[],
                reason=None, **instance,
            ),
        ),
        ApiKey.SYNC_GROUP: (
            5,
            sync(
                group_id="g", generation_id=1, protocol_type="consumer", protocol_name="range", assignments=[],
                **instance,
            ),
        ),
        ApiKey.HEARTBEAT: (4, heartbeat(group_id="g", generation_id=1, **instance)),
        ApiKey.LEAVE_GROUP: (
            5, leave(group_id="g", member_id="m", members=[leave.MemberIdentity(reason=None, **instance)])
        ),
    }  # fmt: skip
    return {key: broker.ask(key, version if newest else 0, request) for key, (version, request) in asked.items()}


@pytest.mark.parametrize("newest", [True, False])
def test_members_are_told_why_not(broker: Harness, newest: bool) -> None:
    def codes() -> set[int]:
        return {answer.error_code for answer in membership(broker, newest).values()}

    assert codes() == {ErrorCode.NOT_COORDINATOR}
    broker.services.authorizer = Forbids("Group")
    assert codes() == {ErrorCode.GROUP_AUTHORIZATION_FAILED}
    broker.services.authorizer = NoAuthorizer({"PLAINTEXT"})
    broker.lead("__consumer_offsets")
    answers = membership(broker, newest)
    left = answers.pop(ApiKey.LEAVE_GROUP)
    assert {answer.error_code for answer in answers.values()} == {ErrorCode.UNKNOWN_MEMBER_ID}
    if newest:  # many may leave: each has a code of its own
        assert (left.error_code, left.members[0].error_code) == (NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_sync_names_its_protocol_since_version_5(broker: Harness) -> None:
    broker.lead("__consumer_offsets")
    request = codec.request(ApiKey.SYNC_GROUP)(
        group_id="g", generation_id=1, protocol_type=None, protocol_name=None, assignments=[], member_id="m",
        group_instance_id=None,
    )  # fmt: skip
    assert broker.ask(ApiKey.SYNC_GROUP, 5, request).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert broker.ask(ApiKey.SYNC_GROUP, 4, request).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class Consumer:
    """A member as its requests show it."""

    def __init__(self, broker: Harness, join_version: int = 9, **fields: Any) -> None:
        self.broker = broker
        self.version = join_version
        defaults = {"group_id": "g", "member_id": "", "group_instance_id": None, "session_timeout_ms": 6000}
        self.fields = {**defaults, **fields}
        self.joined: Any = None

    def begin_join(self) -> list[Any]:
        request = codec.request(ApiKey.JOIN_GROUP)
        protocol = request.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff")
        answers: list[Any] = []
        self.broker.start(
            ApiKey.JOIN_GROUP, self.version,
            request(
                rebalance_timeout_ms=6000, protocol_type="consumer", protocols=[protocol], reason="", **self.fields
            ),
        ).addCallback(answers.append)  # fmt: skip
        return answers

    def join(self) -> Any:
        """With the id that it is given first, if it is, and after the time that new groups wait."""
        answers = self.begin_join()
        if answers and answers[0].error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.fields["member_id"] = answers[0].member_id
            answers = self.begin_join()
        self.broker.clock.advance(3)
        [self.joined] = answers
        self.fields["member_id"] = self.joined.member_id
        return self.joined

    def sync(self, version: int = 5) -> Any:
        request = codec.request(ApiKey.SYNC_GROUP)
        own = request.SyncGroupRequestAssignment(member_id=self.joined.member_id, assignment=b"all")
        return self.broker.ask(
            ApiKey.SYNC_GROUP, version,
            request(
                group_id=self.fields["group_id"], generation_id=self.joined.generation_id,
                member_id=self.joined.member_id, group_instance_id=self.fields["group_instance_id"],
                protocol_type="consumer", protocol_name="range", assignments=[own],
            ),
        )  # fmt: skip


@pytest.mark.parametrize(("join_version", "sync_version"), [(0, 0), (3, 2), (4, 3), (6, 4), (9, 5)])
def test_a_member_joins_syncs_and_is_described(broker: Harness, join_version: int, sync_version: int) -> None:
    broker.lead("__consumer_offsets")
    member = Consumer(broker, join_version)
    joined = member.join()
    assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 1, joined.member_id)
    assert [each.member_id for each in joined.members] == [joined.member_id]
    assert (member.sync(sync_version).error_code, member.sync(sync_version).assignment) == (NONE, b"all")
    described = describe(broker, "g").groups[0]
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert [(each.client_host, each.member_assignment) for each in described.members] == [("/127.0.0.1", b"all")]


@pytest.mark.parametrize(("version", "needs_id"), [(3, False), (4, True), (9, True)])
def test_who_can_come_back_is_sent_away_for_an_id(broker: Harness, version: int, needs_id: bool) -> None:
    broker.lead("__consumer_offsets")
    answers = Consumer(broker, version).begin_join()
    assert bool(answers) == needs_id
    assert not answers or answers[0].error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_session_timeout_out_of_bounds_is_refused(harness: Make) -> None:
    broker = harness(group_max_session_timeout_ms="7000")
    broker.lead("__consumer_offsets")
    codes = [Consumer(broker, session_timeout_ms=ms).begin_join()[0].error_code for ms in (5999, 7000, 7001)]
    refused = ErrorCode.INVALID_SESSION_TIMEOUT
    assert codes == [refused, ErrorCode.MEMBER_ID_REQUIRED, refused]


def test_a_name_that_leaves_no_room_for_a_member_id_is_refused(broker: Harness) -> None:
    """Or the group could never be stored."""
    broker.lead("__consumer_offsets")
    answers = Consumer(broker, group_instance_id="x" * 32_740).begin_join()
    assert answers[0].error_code == ErrorCode.INVALID_REQUEST
    member = Consumer(broker, group_id="g" * 32_767, group_instance_id="é" * 16_000)
    member.join()
    assert (member.sync().error_code, member.sync().assignment) == (NONE, b"all")


def describe(broker: Harness, *groups: str, with_operations: bool = False) -> Any:
    request = codec.request(ApiKey.DESCRIBE_GROUPS)
    return broker.ask(
        ApiKey.DESCRIBE_GROUPS, 5, request(groups=list(groups), include_authorized_operations=with_operations)
    )


def test_groups_are_described_as_far_as_the_client_may(broker: Harness) -> None:
    assert describe(broker, "g").groups[0].error_code == ErrorCode.NOT_COORDINATOR
    broker.lead("__consumer_offsets")
    [dead] = describe(broker, "g").groups
    assert (dead.error_code, dead.group_state, dead.authorized_operations) == (NONE, "Dead", -(2**31))
    [dead] = describe(broker, "g", with_operations=True).groups
    assert dead.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8
    broker.services.authorizer = Forbids("Group")
    assert describe(broker, "g").groups[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def listed(broker: Harness, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
    request = codec.request(ApiKey.LIST_GROUPS)(states_filter=list(states), types_filter=list(types))
    answer = broker.ask(ApiKey.LIST_GROUPS, version, request)
    assert answer.error_code == NONE
    return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in answer.groups]


def test_groups_are_listed_as_far_as_the_client_may(broker: Harness) -> None:
    broker.lead("__consumer_offsets")
    Consumer(broker).join()
    assert listed(broker) == [("g", "consumer", "CompletingRebalance", "classic")]
    assert [each[:2] for each in listed(broker, 0)] == [("g", "consumer")]
    assert listed(broker, states=("Empty",)) == listed(broker, types=("consumer",)) == []
    broker.services.authorizer = Forbids("Cluster")
    assert len(listed(broker)) == 1
    broker.services.authorizer = ForbidsAll()
    assert listed(broker) == []


class ForbidsAll(Authorizer):
    def authorize(self, context: RequestContext, operation: Any, resource: Any) -> bool:
        return False


def delete(broker: Harness, *groups: str) -> dict[str, int]:
    request = codec.request(ApiKey.DELETE_GROUPS)(groups_names=list(groups))
    answer = broker.ask(ApiKey.DELETE_GROUPS, 2, request)
    assert len(answer.results) == len(set(groups))
    return {each.group_id: each.error_code for each in answer.results}


def test_groups_are_deleted_without_their_members(broker: Harness) -> None:
    broker.lead("__consumer_offsets")
    Consumer(broker).join()
    commit(broker, 9, {("t", 0): 7}, group="old")
    codes = delete(broker, "g", "old", "old", "new")
    assert codes == {"g": ErrorCode.NON_EMPTY_GROUP, "old": NONE, "new": ErrorCode.GROUP_ID_NOT_FOUND}
    broker.services.authorizer = Forbids("Group")
    assert delete(broker, "g") == {"g": ErrorCode.GROUP_AUTHORIZATION_FAILED}


def delete_offsets(broker: Harness, group: str, *partitions: tuple[str, int]) -> tuple[int, list[int]]:
    request = codec.request(ApiKey.OFFSET_DELETE)
    topic = request.OffsetDeleteRequestTopic
    topics = [
        topic(name=name, partitions=[topic.OffsetDeleteRequestPartition(partition_index=number)])
        for name, number in partitions
    ]
    answer = broker.ask(ApiKey.OFFSET_DELETE, 0, request(group_id=group, topics=topics))
    return answer.error_code, [each.error_code for named in answer.topics for each in named.partitions]


def test_offsets_are_deleted_unless_a_member_reads_their_topic(broker: Harness) -> None:
    broker.lead("__consumer_offsets")
    broker.lead("u")
    commit(broker, 9, {("t", 0): 7, ("u", 0): 8})
    assert delete_offsets(broker, "new", ("u", 0)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    member = Consumer(broker)
    member.join()
    member.sync()
    codes = [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE, UNKNOWN]
    assert delete_offsets(broker, "g", ("t", 0), ("u", 0), ("x", 0)) == (NONE, codes)
    assert found(fetch(broker, 9)) == [(7, "m", NONE)]
    broker.services.authorizer = Forbids("Topic")
    assert delete_offsets(broker, "g", ("t", 0)) == (NONE, [ErrorCode.TOPIC_AUTHORIZATION_FAILED])
    broker.services.authorizer = Forbids("Group")
    assert delete_offsets(broker, "g", ("t", 0)) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])


def test_the_protocol_that_needs_kraft_is_offered_and_refused(broker: Harness) -> None:
    """KIP-848, as Kafka 3.9.1 in ZooKeeper mode does."""
    heartbeat = codec.request(ApiKey.CONSUMER_GROUP_HEARTBEAT)(
        group_id="g", member_id="", member_epoch=0, subscribed_topic_names=["t"], topic_partitions=[]
    )
    answer = broker.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, heartbeat)
    assert (answer.error_code, answer.assignment) == (ErrorCode.UNSUPPORTED_VERSION, None)
    describe = codec.request(ApiKey.CONSUMER_GROUP_DESCRIBE)(group_ids=["g", "h"], include_authorized_operations=True)
    groups = broker.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, describe).groups
    refused = [("g", ErrorCode.UNSUPPORTED_VERSION), ("h", ErrorCode.UNSUPPORTED_VERSION)]
    assert [(each.group_id, each.error_code) for each in groups] == refused
