"""Reports changes of a group's znodes as events: members, owners, the leader's assignments.

Only a member's trace contains its reasons. As with every watch, several changes between two reads are reported as one.
"""

from functools import partial

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.events import Event, EventSource, Observe
from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.events import (
    FIRST_LOOK,
    OBSERVER,
    AssignmentSeen,
    FirstLook,
    MemberGone,
    MemberSeen,
    OwnersGone,
    OwnersSeen,
)
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import ConnectionLoss, InvalidZnode, SessionLost
from kafka_zk.registry.client.events import Reread
from kafka_zk.registry.client.pipeline import readable
from kafka_zk.registry.client.watches import ChildrenWatcher, Watcher
from kafka_zk.registry.consumers import ConsumerRegistry, Members
from kafka_zk.registry.faults import ZnodeFaults
from kafka_zk.registry.group_assignments import GroupAssignmentRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.group_assignment import GroupAssignment
from kafka_zk.registry.znodes.json_codec import PARTITIONS, number_of

_log = Logger()


class GroupObserver:
    """Reports on one group from its creation until ``close``, on the thread of the client's callbacks."""

    def __init__(self, client: RegistryClient, group: str, observe: Observe) -> None:
        self._client = client
        self._group = group
        self._observe = observe
        self._source = source = EventSource(OBSERVER, observe)
        of_ids = EventSource(OBSERVER, self._ids_observed)
        self._offsets = OffsetRegistry(client, group)
        self._faults = ZnodeFaults(lambda fault: _log.warn("ignoring an owner znode: {fault}", fault=fault))
        self._members: dict[str, int] | None = None  # consumer id -> czxid; None: not read yet
        self._members_zxid = 0  # zxid of the latest change of the list of members
        self._owners: dict[TopicPartition, tuple[str, int]] = {}  # partition -> (thread id, czxid)
        self._topics: dict[str, Watcher] | None = None  # None: not listed yet
        self._first_look: set[str] = set()  # topics that existed at first and whose owners are not read yet
        self._closed = False
        self._watchers: list[Watcher] = [
            ConsumerRegistry(client, group, events=of_ids).watch(self._members_read),
            GroupAssignmentRegistry(client, group, source).watch(self._assignment_read),
            ChildrenWatcher(client, f"{znodes.group_path(group)}/owners", self._topics_read, source),
        ]

    @property
    def has_no_members(self) -> bool:
        """True if the members were read, and the group has no members."""
        return self._members is not None and not self._members

    def close(self) -> None:
        self._closed = True
        for watcher in (*self._watchers, *(self._topics or {}).values()):
            watcher.close()

    def _ids_observed(self, event: Event) -> None:
        if isinstance(event, Reread):
            self._members_zxid = event.zxid
        self._observe(event)

    def _members_read(self, members: Members) -> None:
        cause = FIRST_LOOK if self._members is None else "ids changed"
        if self._members is None:
            self._members = {}
            self._source.emit(FirstLook, tuple(members), cause=cause)
        known = self._members
        zxid = self._members_zxid
        for consumer_id in sorted(known):
            if consumer_id not in members or members[consumer_id].czxid != known[consumer_id]:
                del known[consumer_id]
                self._source.emit(MemberGone, consumer_id, cause=cause, zxid=zxid)
        for consumer_id, (registration, czxid) in members.items():
            if consumer_id not in known:
                known[consumer_id] = czxid
                can = ", ".join(registration.strategies)
                self._source.emit(MemberSeen, consumer_id, can, cause=cause, zxid=czxid)

    def _assignment_read(self, assignment: GroupAssignment | None, version: int) -> None:
        if assignment is not None:
            seen = (assignment.generation, assignment.strategy, assignment.leader)
            self._source.emit(AssignmentSeen, *seen, cause="assignment changed")

    def _topics_read(self, topics: list[str]) -> None:
        if self._topics is None:
            self._topics = {}
            self._first_look.update(topics)
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
            paths = [znodes.owner_path(self._group, topic, tp.partition) for tp in partitions]
            answers = self._faults.visible(paths, await readable(self._client.get(path) for path in paths))
            offsets, _ = await self._offsets.fetch_visible(partitions)
        except (ConnectionLoss, SessionLost):
            return  # the reconnect reads everything again
        if self._closed:
            return
        now: dict[TopicPartition, tuple[str, int]] = {}
        for tp, answer in zip(partitions, answers, strict=True):
            if answer is not None:
                now[tp] = (_owner(tp, answer[0]), answer[1].czxid)
        cause = FIRST_LOOK if topic in self._first_look else "owners changed"
        self._first_look.discard(topic)
        gone: dict[str, list[TopicPartition]] = {}
        for tp in sorted(tp for tp in self._owners if tp.topic == topic and self._owners[tp] != now.get(tp)):
            gone.setdefault(self._owners.pop(tp)[0], []).append(tp)
        came: dict[str, dict[TopicPartition, int]] = {}
        for tp, (owner, czxid) in sorted(now.items()):
            if tp not in self._owners:
                self._owners[tp] = (owner, czxid)
                came.setdefault(owner, {})[tp] = offsets[tp].offset if tp in offsets else -1
        for owner, lost in gone.items():
            self._source.emit(OwnersGone, owner, tuple(lost), cause=cause)
        for owner, gained in came.items():
            czxid = max(now[tp][1] for tp in gained)
            self._source.emit(OwnersSeen, owner, gained, cause=cause, zxid=czxid)


def _owner(tp: TopicPartition, data: bytes | None) -> str:
    try:
        return znodes.decode_owner(str(tp), data)
    except InvalidZnode:
        return "(not understood)"
