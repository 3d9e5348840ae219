"""An event of a group as a sentence for people. Pure."""

import re
from collections.abc import Iterable, Mapping
from functools import singledispatchmethod

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group import events as coordinator
from kafka_zk.rebalance import events as group
from kafka_zk.recorder.timeline import events as seen
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, SessionChanged, WatchArmed, WatchFired
from kafka_zk.registry.znodes.consumers import consumer_of

_GENERATED_ID = re.compile(r".*-[0-9]{13}-([0-9a-f]{8})")


def short_name(group_id: str, consumer_id: str) -> str:
    """What tells a member from the others: the random end of a generated id, else what follows the group's name."""
    generated = _GENERATED_ID.fullmatch(consumer_id)
    return generated[1] if generated else consumer_id.removeprefix(f"{group_id}_")


def listed(partitions: Iterable[TopicPartition]) -> str:
    """``t-0,1,4 u-2``: partitions by topic, or ``nothing``."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return " ".join(f"{topic}-{','.join(map(str, numbers))}" for topic, numbers in by_topic.items()) or "nothing"


class Narrator:
    """Sentences about one group; ``None`` for what only repeats another event."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._root = f"/consumers/{group_id}"

    def who(self, event: Event) -> str:
        """The short name of the member that the event is about, or of the observer."""
        return short_name(self._group_id, event.actor)

    @singledispatchmethod
    def sentence(self, event: Event) -> str | None:
        return None

    # --- watches ---

    @sentence.register
    def _(self, event: WatchFired) -> str | None:
        if event.type is EventType.NONE:
            return f"watch on {self._path(event.path)} dropped with the connection"
        return f"watch on {self._path(event.path)} fired: {event.type.value}"

    @sentence.register
    def _(self, event: Reread) -> str | None:
        changed = "" if event.changed else ", nothing new"
        return f"read {self._path(event.path)} ({event.cause}){changed}"

    @sentence.register
    def _(self, event: WatchArmed) -> str | None:
        return f"watch on {self._path(event.path)} set"

    @sentence.register
    def _(self, event: SessionChanged) -> str | None:
        return f"session {event.state.value}"

    # --- members about themselves ---

    @sentence.register
    def _(self, event: group.MemberRegistered) -> str | None:
        return f"registered in session {event.session_id:#x}"

    @sentence.register
    def _(self, event: group.StrategyChosen) -> str | None:
        return f"{'WARNING: ' if event.warning else ''}strategy {event.strategy}: {event.cause}"

    @sentence.register
    def _(self, event: group.RebalanceStarted) -> str | None:
        return f"REBALANCE begins: {event.cause}"

    @sentence.register
    def _(self, event: group.DeliveryStopped) -> str | None:
        return f"stops {listed(event.partitions)}"

    @sentence.register
    def _(self, event: group.Committed) -> str | None:
        return f"commits {_offsets(event.offsets)} ({event.cause})"

    @sentence.register
    def _(self, event: group.CommitRefused) -> str | None:
        return f"commit of {event.partition} refused: {event.reason}"

    @sentence.register
    def _(self, event: group.Released) -> str | None:
        others = f"; {listed(event.not_ours)} was no longer its own" if event.not_ours else ""
        return f"releases {listed(event.partitions)}{others}"

    @sentence.register
    def _(self, event: group.Claimed) -> str | None:
        return f"claims {listed(event.offsets)}"

    @sentence.register
    def _(self, event: group.ClaimWaits) -> str | None:
        return f"waits for {self._thread(event.owner)} to release {event.partition} (watches its owner znode)"

    @sentence.register
    def _(self, event: group.ClaimOverdue) -> str | None:
        return f"WARNING: {event.partition} is held by {self._thread(event.owner)} for {event.waited_ms} ms"

    @sentence.register
    def _(self, event: group.DeliveryStarted) -> str | None:
        return f"delivers {_offsets(event.offsets)}"

    @sentence.register
    def _(self, event: group.RebalanceFinished) -> str | None:
        return (
            f"REBALANCE done in {event.duration_ms} ms: kept {listed(event.kept)}, lost {listed(event.lost)}, "
            f"gained {listed(event.gained)}"
        )

    @sentence.register
    def _(self, event: group.OwnershipLost) -> str | None:
        return f"has lost {listed(event.partitions)}: {event.cause}"

    @sentence.register
    def _(self, event: group.OffsetsOutdated) -> str | None:
        return f"WARNING: {event.cause}, the offsets of {listed(event.partitions)} are invalid"

    @sentence.register
    def _(self, event: group.DeliverySuspended) -> str | None:
        return "pauses: the connection to ZooKeeper is suspended"

    @sentence.register
    def _(self, event: group.DeliveryResumed) -> str | None:
        return "continues: the session survived"

    @sentence.register
    def _(self, event: group.LeaseEnded) -> str | None:
        return "delivers nothing: its lease has expired"

    @sentence.register
    def _(self, event: group.GenerationWritten) -> str | None:
        return f"leads: writes generation {event.generation} ({event.strategy}), {event.moved} partitions move"

    @sentence.register
    def _(self, event: group.StaticMemberAway) -> str | None:
        return f"keeps the partitions of static member {self._member(event.consumer_id)}"

    @sentence.register
    def _(self, event: group.PlaceNotKept) -> str | None:
        return f"WARNING: {event.cause}"

    @sentence.register
    def _(self, event: group.GroupNotUnderstood) -> str | None:
        return f"WARNING: {event.cause}"

    @sentence.register
    def _(self, event: group.SettingsDoubtful) -> str | None:
        return f"WARNING: {event.cause}"

    @sentence.register
    def _(self, event: group.MemberLeft) -> str | None:
        return "has left"

    # --- seen from outside ---

    @sentence.register
    def _(self, event: seen.FirstLook) -> str | None:
        return f"begins; in the group: {', '.join(map(self._member, event.members)) or 'nobody'}"

    @sentence.register
    def _(self, event: seen.MemberSeen) -> str | None:
        can = f" (can {event.announces})" if event.announces else " (announces none of our strategies)"
        return f"ids: {self._member(event.consumer_id)} is there{can}"

    @sentence.register
    def _(self, event: seen.MemberGone) -> str | None:
        return f"ids: {self._member(event.consumer_id)} is gone"

    @sentence.register
    def _(self, event: seen.OwnersSeen) -> str | None:
        return f"owners: {self._thread(event.owner)} has {_offsets(event.offsets)}"

    @sentence.register
    def _(self, event: seen.OwnersGone) -> str | None:
        return f"owners: {listed(event.partitions)} free ({self._thread(event.owner)} had it)"

    @sentence.register
    def _(self, event: seen.AssignmentSeen) -> str | None:
        leader = self._member(event.leader)
        return f"assignment: generation {event.generation} by {event.strategy}, written by {leader}"

    @sentence.register
    def _(self, event: seen.StateSeen) -> str | None:
        return f"the group is {event.state}"

    @sentence.register
    def _(self, event: seen.GenerationSeen) -> str | None:
        has = ", ".join(f"{each.member} has {listed(each.assigned)}" for each in event.members) or "nobody is there"
        number = f"generation {event.generation}, assigned by {event.leader}: " if event.leader else ""
        return f"{number}{has}"

    # --- the coordinator of a broker's group ---

    @sentence.register
    def _(self, event: coordinator.RebalancePrepared) -> str | None:
        return f"REBALANCE is prepared after generation {event.generation}: {event.cause}"

    @sentence.register
    def _(self, event: coordinator.MemberIdAssigned) -> str | None:
        return f"{event.member} gets a member id, to join with"

    @sentence.register
    def _(self, event: coordinator.MemberJoined) -> str | None:
        again = "" if event.is_new else " again"
        static = f" as static member {event.group_instance_id}" if event.group_instance_id else ""
        return f"{event.member} joins{again}{static}, delivers {listed(event.owned)}"

    @sentence.register
    def _(self, event: coordinator.MemberToldToRejoin) -> str | None:
        return f"{event.member}'s heartbeat is answered: rebalance in progress"

    @sentence.register
    def _(self, event: coordinator.JoinCompleted) -> str | None:
        if not event.members:
            return f"generation {event.generation}: the group is empty"
        who = f"{', '.join(event.members)}; {event.leader} leads and assigns by {event.protocol}"
        return f"generation {event.generation}: {who}"

    @sentence.register
    def _(self, event: coordinator.MemberSynced) -> str | None:
        return f"{event.member} asks for its assignment"

    @sentence.register
    def _(self, event: coordinator.AssignmentCompleted) -> str | None:
        gets = ", ".join(f"{member} gets {listed(tps)}" for member, tps in event.assignments.items())
        return f"REBALANCE done, generation {event.generation} is stable: {gets}"

    @sentence.register
    def _(self, event: coordinator.MemberDeparted) -> str | None:
        return f"{event.member} is removed: {event.cause}"

    @sentence.register
    def _(self, event: coordinator.StaticMemberReturned) -> str | None:
        return f"static member {event.group_instance_id} is back and keeps its place; its old member id is fenced"

    def _path(self, path: str) -> str:
        """Paths of the group without what they have in common."""
        return path.removeprefix(self._root + "/")

    def _member(self, consumer_id: str) -> str:
        return short_name(self._group_id, consumer_id)

    def _thread(self, thread_id: str) -> str:
        return short_name(self._group_id, consumer_of(thread_id)) + thread_id.removeprefix(consumer_of(thread_id))


def _offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """``t-0,1 at 5, t-2 at 7``: partitions with the same offset together."""
    by_offset: dict[int, list[TopicPartition]] = {}
    for tp, offset in sorted(offsets.items()):
        by_offset.setdefault(offset, []).append(tp)
    return ", ".join(f"{listed(tps)} at {_offset(offset)}" for offset, tps in by_offset.items()) or "nothing"


def _offset(offset: int) -> str:
    return str(offset) if offset >= 0 else "no offset yet"
