"""The arrow that slow motion draws for an entry: its ends, a label, the znode and a sentence. Pure."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.broker.controller import events as controller
from kafka_zk.broker.group import events as coordinator
from kafka_zk.broker.replica import events as replica
from kafka_zk.rebalance import events as group
from kafka_zk.recorder.recording.causality import target_of
from kafka_zk.recorder.recording.entries import CHANGED, CHANGES, CREATED, SESSION_BEGAN, SESSION_ENDED, Entry
from kafka_zk.recorder.recording.session_names import ZOOKEEPER, process_of, unnamed
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.timeline.event_codec import UnknownEvent, decode
from kafka_zk.recorder.timeline.sentences import Mark, api_name, sentence
from kafka_zk.recorder.web.narration import line
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, WatchFired
from kafka_zk.registry.znodes import brokers, consumers, topics
from kafka_zk.registry.znodes.controller import CONTROLLER_EPOCH

YOU = "you"
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FIRED = {
    EventType.CREATED: "was created",
    EventType.CHANGED: "was written",
    EventType.DELETED: "was deleted",
    EventType.CHILD: "gained or lost children",
}


class Arrow(NamedTuple):
    """``source`` and ``target``: processes, ZOOKEEPER or YOU; equal for an event within one process. ``znode``: its
    path; "" for an event that concerns no znode. ``said``: a sentence.
    """

    source: str
    target: str
    label: str
    znode: str
    said: str


def arrow_of(entry: Entry, group_id: str, stale: Mapping[int, str]) -> Arrow | None:
    """None for an event that only repeats another one, or that matters only to readers of every step."""
    if entry.kind in CHANGES:
        return _of_change(entry)
    if entry.kind in (SESSION_BEGAN, SESSION_ENDED):
        return _of_session(entry)
    try:
        event = decode(entry.document)
    except UnknownEvent:
        return None
    said = sentence(event)
    if said is None or said.mark is Mark.DETAIL:
        return None
    return _of_event(event, entry, group_id, stale)


def _of_change(entry: Entry) -> Arrow:
    process, path = process_of(entry.actor), entry.path
    after = entry.document["after"]
    if entry.kind == CREATED:
        label, lives = "creates", ", which lives as long as its session" if after[5] else ""
        said = f"{process} creates {path}{lives}."
    elif entry.kind == CHANGED:
        label, said = "writes", f"{process} writes {path}, now version {after[1]}."
    else:
        belonged = ", which belonged to the session that ended" if entry.actor == ZOOKEEPER else ""
        label, said = "deletes", f"{process} deletes {path}{belonged}."
    return Arrow(process, ZOOKEEPER, label, path, said)


def _of_session(entry: Entry) -> Arrow:
    process = process_of(entry.actor)
    is_named = process != unnamed(entry.document["session"])
    client = process if is_named else "A client"
    if entry.kind == SESSION_BEGAN:
        said = f"{client} opens {'a session' if is_named else process} with ZooKeeper."
        return Arrow(process, ZOOKEEPER, "opens a session", "", said)
    if entry.document.get("expired") is False:
        said = f"{client} closes {'its session' if is_named else process} with ZooKeeper."
        return Arrow(process, ZOOKEEPER, "closes its session", "", said)
    why = ", from which it heard nothing for the whole session timeout" if entry.document.get("expired") else ""
    said = f"ZooKeeper ends {f'the session of {process}' if is_named else process}{why}."
    return Arrow(ZOOKEEPER, process, "ends the session", "", said)


def _of_event(event: Event, entry: Entry, group_id: str, stale: Mapping[int, str]) -> Arrow:
    process, znode = process_of(event.actor), _znode(event, entry, group_id)
    said = _said(event, line(entry))
    if isinstance(event, WatchFired) and event.type is not EventType.NONE:
        told = f"ZooKeeper tells {event.actor} that {event.path} {_FIRED[event.type]}."
        return Arrow(ZOOKEEPER, process, "watch fires", znode, told)
    if isinstance(event, OperatorActed):
        verb, _, thing = event.action.partition("-")
        done = f"{verb} the {thing} of {event.target}" if thing else f"{verb} {event.target}"
        return Arrow(YOU, target_of(event), event.action.replace("-", " "), znode, f"You {done}.")
    source, target, label = _ends(event, process, stale)
    return Arrow(source, target, label, znode, said)


def _ends(event: Event, process: str, stale: Mapping[int, str]) -> tuple[str, str, str]:
    """Source, target and label; without a known partner, the event is within its process."""
    match event:
        case Reread():
            return process, ZOOKEEPER, "reads"
        case group.Committed():
            return process, ZOOKEEPER, "commits"
        case controller.RequestSent() | controller.RequestFailed():
            end = "answered" if isinstance(event, controller.RequestSent) else "fails"
            return process, f"broker-{event.broker_id}", f"{api_name(event.api)} {end}"
        case replica.ControllerIgnored():
            return stale.get(event.controller_epoch, process), process, "request refused"
        case coordinator.MemberJoined():
            return event.member, process, "JoinGroup"
        case coordinator.MemberSynced():
            return event.member, process, "SyncGroup"
        case coordinator.MemberDeparted(departure=coordinator.Departure.LEFT):
            return event.member, process, "LeaveGroup"
        case coordinator.MemberToldToRejoin():
            return process, event.member, "REBALANCE_IN_PROGRESS"
        case coordinator.MemberIdAssigned():
            return process, event.member, "MEMBER_ID_REQUIRED"
    return process, process, _WORDS.sub(" ", type(event).__name__).lower()


def _znode(event: Event, entry: Entry, group_id: str) -> str:
    """The znode that an event concerns, if the event itself names no znode."""
    if isinstance(event, replica.RoleChanged | replica.ReplicaStopped):
        return topics.state_path(event.partition.topic, event.partition.partition)
    if isinstance(event, replica.ControllerIgnored | controller.ControllerElected | controller.ControllerResigned):
        return CONTROLLER_EPOCH
    if isinstance(event, controller.BrokersChanged):
        return brokers.BROKER_IDS
    if not group_id:
        return entry.path
    if isinstance(event, group.MemberRegistered):
        return consumers.id_path(group_id, event.actor)
    if isinstance(event, group.CommitRefused):
        return consumers.offset_path(group_id, event.partition.topic, event.partition.partition)
    if isinstance(event, group.ClaimWaits):
        return consumers.owner_path(group_id, event.partition.topic, event.partition.partition)
    if isinstance(event, group.Claimed | group.Released):
        return consumers.group_owners_path(group_id)
    if isinstance(event, group.Committed):
        return consumers.group_offsets_path(group_id)
    return entry.path


def _said(event: Event, text: str) -> str:
    """The sentence of an event, with its subject."""
    has_subject = isinstance(event, coordinator.CoordinatorEvent | group.CommitRefused) or text[:1].isupper()
    end = "" if text.endswith((".", "…")) else "."
    return f"{event.actor}{':' if has_subject else ''} {text}{end}"
