"""Membership in groups of this coordinator; describing, listing and deleting groups."""

from typing import Any

import pytest

from kafka_zk.broker.security.authorizer import Authorizer, NoAuthorizer
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext
from tests.kafka_zk.broker.conftest import Harness
from tests.kafka_zk.broker.handlers.groups.group_requests import (
    NONE,
    UNKNOWN,
    Forbids,
    Make,
    broker,
    commit,
    fetch,
    found,
)

__all__ = ["broker"]  # a fixture


def membership(broker: Harness, newest: bool) -> dict[ApiKey, Any]:
    """The responses to one request of each API for an unknown member."""
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
    if newest:  # several members may leave: each has its own code
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
    """A member and the fields of its requests."""

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
        """Join, again with the member id from the first response if it is required, and let the initial delay pass."""
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
    """A group with such a name could never be stored."""
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
    """The protocol is KIP-848's; Kafka 3.9.1 in ZooKeeper mode behaves the same way."""
    heartbeat = codec.request(ApiKey.CONSUMER_GROUP_HEARTBEAT)(
        group_id="g", member_id="", member_epoch=0, subscribed_topic_names=["t"], topic_partitions=[]
    )
    answer = broker.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, heartbeat)
    assert (answer.error_code, answer.assignment) == (ErrorCode.UNSUPPORTED_VERSION, None)
    describe = codec.request(ApiKey.CONSUMER_GROUP_DESCRIBE)(group_ids=["g", "h"], include_authorized_operations=True)
    groups = broker.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, describe).groups
    refused = [("g", ErrorCode.UNSUPPORTED_VERSION), ("h", ErrorCode.UNSUPPORTED_VERSION)]
    assert [(each.group_id, each.error_code) for each in groups] == refused
