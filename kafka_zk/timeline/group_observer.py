"""Watches a group's znodes from outside and reports what changes, as events.

It sees members come and go, owners, and the leader's assignments; why a member does something only the member knows
(its trace says). Several changes between two reads are seen as one, as with every watch.
"""

from functools import partial

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from kafka_zk.registry.client import RegistryClient
from kafka_zk.registry.consumers import ConsumerRegistry, Members
from kafka_zk.registry.errors import ConnectionLoss, InvalidZnode, SessionLost
from kafka_zk.registry.events import EventSource, Observe
from kafka_zk.registry.group_assignments import GroupAssignmentRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.pipeline import found
from kafka_zk.registry.watches import ChildrenWatcher, Watcher
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.group_assignment import GroupAssignment
from kafka_zk.registry.znodes.json_codec import PARTITIONS, number_of
from kafka_zk.storage.types import TopicPartition
from kafka_zk.timeline.events import AssignmentSeen, MemberGone, MemberSeen, OwnersGone, OwnersSeen

_log = Logger()
OBSERVER = "observer"


class GroupObserver:
    """Reports on one group from its making until ``close``; where the client's callbacks run."""

    def __init__(self, client: RegistryClient, group: str, observe: Observe) -> None:
        self._client = client
        self._group = group
        self._source = source = EventSource(OBSERVER, observe)
        self._offsets = OffsetRegistry(client, group)
        self._members: dict[str, int] = {}  # consumer id -> czxid
        self._owners: dict[TopicPartition, tuple[str, int]] = {}  # partition -> (thread id, czxid)
        self._topics: dict[str, Watcher] = {}
        self._closed = False
        self._watchers: list[Watcher] = [
            ConsumerRegistry(client, group, events=source).watch(self._members_read),
            GroupAssignmentRegistry(client, group, source).watch(self._assignment_read),
            ChildrenWatcher(client, f"{znodes.group_path(group)}/owners", self._topics_read, source),
        ]

    def close(self) -> None:
        """Report nothing from now on."""
        self._closed = True
        for watcher in (*self._watchers, *self._topics.values()):
            watcher.close()

    def _members_read(self, members: Members) -> None:
        for consumer_id in sorted(self._members):
            if consumer_id not in members or members[consumer_id].czxid != self._members[consumer_id]:
                del self._members[consumer_id]
                self._source.emit(MemberGone, consumer_id, cause="ids changed")
        for consumer_id, (registration, czxid) in members.items():
            if consumer_id not in self._members:
                self._members[consumer_id] = czxid
                can = ", ".join(registration.strategies)
                self._source.emit(MemberSeen, consumer_id, can, cause="ids changed", zxid=czxid)

    def _assignment_read(self, assignment: GroupAssignment | None, version: int) -> None:
        if assignment is not None:
            seen = (assignment.generation, assignment.strategy, assignment.leader)
            self._source.emit(AssignmentSeen, *seen, cause="assignment changed")

    def _topics_read(self, topics: list[str]) -> None:
        for topic in topics:
            if topic not in self._topics:
                self._topics[topic] = ChildrenWatcher(
                    self._client,
                    znodes.owners_path(self._group, topic),
                    partial(self._owners_listed, topic),
                    self._source,
                )

    def _owners_listed(self, topic: str, names: list[str]) -> None:
        numbers = (number_of(name, PARTITIONS) for name in names)
        partitions = [TopicPartition(topic, number) for number in numbers if number is not None]
        ensureDeferred(self._read_owners(topic, partitions)).addErrback(
            lambda failure: _log.failure("the owners of {topic} cannot be read", failure=failure, topic=topic)
        )

    async def _read_owners(self, topic: str, partitions: list[TopicPartition]) -> None:
        try:
            answers = await found(
                self._client.get(znodes.owner_path(self._group, topic, tp.partition)) for tp in partitions
            )
            offsets = await self._offsets.fetch(partitions)
        except (ConnectionLoss, SessionLost):
            return  # everything is read again when the connection is back
        if self._closed:
            return
        now: dict[TopicPartition, tuple[str, int]] = {}
        for tp, answer in zip(partitions, answers, strict=True):
            if answer is not None:
                now[tp] = (_owner(tp, answer[0]), answer[1].czxid)
        gone: dict[str, list[TopicPartition]] = {}
        for tp in sorted(tp for tp in self._owners if tp.topic == topic and self._owners[tp] != now.get(tp)):
            gone.setdefault(self._owners.pop(tp)[0], []).append(tp)
        came: dict[str, dict[TopicPartition, int]] = {}
        for tp, (owner, czxid) in sorted(now.items()):
            if tp not in self._owners:
                self._owners[tp] = (owner, czxid)
                came.setdefault(owner, {})[tp] = offsets[tp].offset if tp in offsets else -1
        for owner, lost in gone.items():
            self._source.emit(OwnersGone, owner, tuple(lost), cause="owners changed")
        for owner, gained in came.items():
            czxid = max(now[tp][1] for tp in gained)
            self._source.emit(OwnersSeen, owner, gained, cause="owners changed", zxid=czxid)


def _owner(tp: TopicPartition, data: bytes | None) -> str:
    try:
        return znodes.decode_owner(str(tp), data)
    except InvalidZnode:
        return "(not understood)"
