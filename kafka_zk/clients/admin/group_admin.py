"""Administration of broker-coordinated groups; ``blocking_admin`` is the version for threads.

Nothing here joins a group. Offsets can be changed only for a group without members, which the coordinator checks.

Source: KafkaAdminClient.java, ConsumerGroupCommand.scala@3.9.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from twisted.internet.defer import gatherResults

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.coordinators import PASSING, Answer, Coordinators
from kafka_zk.clients.connection.errors import KafkaError, broker_error
from kafka_zk.clients.connection.group_coordinator import GroupCoordinator
from kafka_zk.clients.connection.waiting import Reactor, run
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE, read_assignment
from kafka_zk.protocol.errors import ErrorCode, ProtocolError

DEAD = "Dead"
EMPTY = "Empty"
STABLE = "Stable"

NO_LEADER_EPOCH = -1
_NO_OFFSET = -1
_NO_GENERATION = -1
_BY_MEMBERS = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS})
"""The errors with which a coordinator rejects a non-member's commit while the group has members."""

_ListGroups = codec.request(ApiKey.LIST_GROUPS)
_DescribeGroups = codec.request(ApiKey.DESCRIBE_GROUPS)
_DeleteGroups = codec.request(ApiKey.DELETE_GROUPS)
_OffsetFetch = codec.request(ApiKey.OFFSET_FETCH)
_OffsetCommit = codec.request(ApiKey.OFFSET_COMMIT)
_CommitTopic = _OffsetCommit.OffsetCommitRequestTopic
_OffsetDelete = codec.request(ApiKey.OFFSET_DELETE)


class ListedGroup(NamedTuple):
    """``protocol_type``: ``consumer`` for consumers, empty if offsets were committed without a member. ``state``: empty
    if the broker is too old to return it."""

    group: str
    protocol_type: str
    state: str


class MemberDescription(NamedTuple):
    """A member. ``partitions``: its assignment; empty during a rebalance and for members that are not consumers.
    ``host``: in the broker's form (``/127.0.0.1``).
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """A group as it is now. ``state``: Dead if it does not exist. ``assignor``: empty unless the group is Stable."""

    group: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]


class CommittedOffset(NamedTuple):
    """The next offset to consume, and the data that were committed with it. ``leader_epoch``: -1 if unknown."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


class GroupAdmin:
    """The ``groups`` of an ``Admin``, on the reactor thread.

    Every method retries while coordinators move or load. It may raise KafkaTimeoutError after default.api.timeout.ms,
    and BrokerError with Kafka's code.
    """

    def __init__(self, reactor: Reactor, cluster: Cluster, config: ClientConfig) -> None:
        self._reactor = reactor
        self._config = config
        self._cluster = cluster
        self._coordinators = Coordinators(reactor, cluster, config)

    async def list_groups(self) -> dict[str, ListedGroup]:
        """All groups of all live brokers, sorted. Unlike the other methods, never creates ``__consumer_offsets``."""
        found: dict[str, ListedGroup] = {}
        asked: set[int] = set()

        async def attempt(causes: list[KafkaError]) -> None:
            left = sorted((await self._cluster.refresh()).nodes.keys() - asked)
            if not left:
                causes.append(broker_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no broker is known yet"))
            message = _ListGroups()
            waiting = [run(self._coordinators.request(each, ApiKey.LIST_GROUPS, message, causes)) for each in left]
            for node_id, response in zip(left, await gatherResults(waiting, consumeErrors=True), strict=True):
                if response is None:
                    continue
                if response.error_code:
                    causes.append(broker_error(response.error_code, f"the groups of broker {node_id}"))
                    continue
                asked.add(node_id)
                for each in response.groups:
                    found[each.group_id] = ListedGroup(each.group_id, each.protocol_type, each.group_state or "")

        await self._coordinators.until(
            lambda: bool(asked) and asked >= self._cluster.metadata.nodes.keys(), attempt, lambda: "a broker"
        )
        return dict(sorted(found.items()))

    async def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """State and members of each group. Raises: BrokerError for the first failure."""

        def message(some: list[str]) -> Any:
            return _DescribeGroups(groups=some)

        def answers(_: list[str], response: Any) -> Iterable[Answer]:
            return (Answer(each.group_id, each.error_code, each) for each in response.groups)

        found = await self._coordinators.ask(groups, ApiKey.DESCRIBE_GROUPS, message, answers)
        return {group: _description(answer) for group, answer in found.items()}

    async def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """All committed offsets of a group, sorted; empty if it does not exist."""
        return (await self.committed_by([group]))[group]

    async def committed_by(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Like ``committed``, for several groups, in the order of ``groups``."""
        named = _OffsetFetch.OffsetFetchRequestGroup

        def message(some: list[str]) -> Any:
            return _OffsetFetch(
                group_id=some[0],
                topics=None,
                groups=[
                    named(group_id=each, member_id=None, member_epoch=_NO_GENERATION, topics=None) for each in some
                ],
                require_stable=False,
            )

        def answers(asked: list[str], response: Any) -> Iterable[Answer]:
            if not response.groups:  # an old broker responds for the first group only
                return [Answer(asked[0], response.error_code, response.topics)]
            return (Answer(each.group_id, each.error_code, each.topics) for each in response.groups)

        found = await self._coordinators.ask(groups, ApiKey.OFFSET_FETCH, message, answers)
        return {group: _committed(answer) for group, answer in found.items()}

    async def stable_offsets(self, group: str, tps: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """A group's committed offsets, NO_OFFSET (-1) where nothing is committed. While a transaction commits offsets
        of the partitions, waits for its end (KIP-447), without a time limit.

        Raises: BrokerError for a permanent error.
        """
        return await GroupCoordinator(self._reactor, self._config, self._cluster, group).committed(tps)

    async def commit(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets for a group without members. The group need not exist.

        Raises: BrokerError for the first failure, NON_EMPTY_GROUP if the group has members; the other offsets are
        committed.
        """
        topics = [
            _CommitTopic(
                name=name,
                partitions=[_to_commit(number, offsets[TopicPartition(name, number)]) for number in numbers],
            )
            for name, numbers in partitions_by_topic(sorted(offsets)).items()
        ]
        message = _OffsetCommit(group_id=group, topics=topics)  # by default without a member and a retention time
        codes = await self._codes(group, ApiKey.OFFSET_COMMIT, message)
        for tp, code in codes.items():
            if code in _BY_MEMBERS:
                raise broker_error(ErrorCode.NON_EMPTY_GROUP, f"storing offsets of group {group}")
            if code:
                raise broker_error(code, f"storing the offset of group {group} for {tp}")

    async def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete groups without members, with their committed offsets.

        Raises: BrokerError for the first failure (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP); the other groups are deleted.
        """

        def answers(_: list[str], response: Any) -> Iterable[Answer]:
            return (Answer(each.group_id, each.error_code, None) for each in response.results)

        found = await self._coordinators.ask(
            groups, ApiKey.DELETE_GROUPS, lambda some: _DeleteGroups(groups_names=some), answers
        )
        for group, answer in found.items():
            if answer.code:
                raise broker_error(answer.code, f"deleting group {group}")

    async def delete_offsets(self, group: str, tps: Collection[TopicPartition]) -> None:
        """Delete a group's committed offsets for these partitions.

        Raises: BrokerError for the first failure (GROUP_SUBSCRIBED_TO_TOPIC if a member reads the topic); the other
        offsets are deleted.
        """
        topic_of = _OffsetDelete.OffsetDeleteRequestTopic
        partition_of = topic_of.OffsetDeleteRequestPartition
        message = _OffsetDelete(
            group_id=group,
            topics=[
                topic_of(name=name, partitions=[partition_of(partition_index=number) for number in numbers])
                for name, numbers in partitions_by_topic(sorted(tps)).items()
            ],
        )
        for tp, code in (await self._codes(group, ApiKey.OFFSET_DELETE, message)).items():
            if code:
                raise broker_error(code, f"deleting the offset of group {group} for {tp}")

    async def _codes(self, group: str, api_key: ApiKey, message: Any) -> dict[TopicPartition, int]:
        """The error code of each partition. Raises the group's error."""

        def answers(_: list[str], response: Any) -> Iterable[Answer]:
            codes = {
                TopicPartition(topic.name, each.partition_index): each.error_code
                for topic in response.topics
                for each in topic.partitions
            }
            of_group = response.error_code if api_key is ApiKey.OFFSET_DELETE else 0
            passing = next((code for code in codes.values() if code in PASSING), 0)
            return [Answer(group, of_group or passing, codes)]

        answer = (await self._coordinators.ask([group], api_key, lambda _: message, answers))[group]
        if answer.code:
            raise broker_error(answer.code, f"group {group}")
        codes: dict[TopicPartition, int] = answer.content
        return codes


def _to_commit(partition: int, committed: CommittedOffset) -> Any:
    return _CommitTopic.OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


def _committed(answer: Answer) -> dict[TopicPartition, CommittedOffset]:
    group, code, topics = answer
    if code:
        raise broker_error(code, f"offsets of group {group}")
    found = {}
    for topic in topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                raise broker_error(each.error_code, f"the offset of group {group} for {tp}")
            if each.committed_offset != _NO_OFFSET:
                epoch = NO_LEADER_EPOCH if each.committed_leader_epoch is None else each.committed_leader_epoch
                found[tp] = CommittedOffset(each.committed_offset, epoch, each.metadata or "")
    return dict(sorted(found.items()))


def _description(answer: Answer) -> GroupDescription:
    group, code, described = answer
    if code == ErrorCode.GROUP_ID_NOT_FOUND:  # from brokers 4.0 on
        return GroupDescription(group, DEAD, "", "", ())
    if code:
        raise broker_error(code, f"group {group}")
    has_consumers = described.protocol_type == CONSUMER_PROTOCOL_TYPE
    members = tuple(_member(each, has_consumers) for each in described.members)
    return GroupDescription(group, described.group_state, described.protocol_type, described.protocol_data, members)


def _member(member: Any, is_consumer: bool) -> MemberDescription:
    try:
        partitions = sorted(read_assignment(member.member_assignment)) if is_consumer else []
    except ProtocolError:
        partitions = []  # members may use another format
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(partitions)
    )
