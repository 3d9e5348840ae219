"""Records the holders of leaderships, group partitions and registrations over time. Pure.

Each span belongs to a lane: a partition, a group's partition, or a broker. The page draws each lane along a time
axis; a span without a holder is a silence.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_zk.broker.group.events import AssignmentCompleted, MemberDeparted
from kafka_zk.recorder.recording.znode_tree import Change
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.recorder.zookeeper_health.answers import DOWN
from kafka_zk.recorder.zookeeper_health.events import EnsembleStateChanged, ServerStateChanged
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes.topics import decode_state

NOBODY = ""
SERVER, ENSEMBLE = "server", "ensemble"
OF_ZOOKEEPER = (SERVER, ENSEMBLE)
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d{1,9})/state")
_OWNER = re.compile(r"/consumers/([^/]+)/owners/([^/]+)/(\d{1,9})")
_BROKER = re.compile(r"/brokers/ids/(\d{1,9})")
_MEMBER = re.compile(r"/consumers/([^/]+)/ids/([^/]+)")
_CONTROLLER = "/controller"


class Hold(NamedTuple):
    """A change of a lane. ``holder`` holds the lane from now on; "" means that it has no holder.

    ``kind``: leader, owner (by a znode), assigned (by a group coordinator), broker, member, controller,
    server (a ZooKeeper server, by its mode) or ensemble (ZooKeeper as a whole).
    """

    kind: str
    lane: str
    holder: str
    note: str = ""


def hold(change: Change) -> Hold | None:
    """The new holder of the lane that a change concerns; None if the change concerns no lane."""
    path, znode = change.path, change.after
    if found := _STATE.fullmatch(path):
        return _leader(found[1], int(found[2]), znode)
    if found := _OWNER.fullmatch(path):
        return Hold("owner", f"{found[1]}: {found[2]}-{found[3]}", _text(znode))
    if found := _BROKER.fullmatch(path):
        return Hold("broker", f"broker {found[1]}", NOBODY if znode is None else f"session {znode.session:#x}")
    if found := _MEMBER.fullmatch(path):
        return Hold("member", f"{found[1]}: {found[2]}", NOBODY if znode is None else f"session {znode.session:#x}")
    if path == _CONTROLLER:
        return Hold("controller", "controller", NOBODY if znode is None else f"broker {_broker_id(_text(znode))}")
    return None


def health_hold(event: ServerStateChanged | EnsembleStateChanged) -> Hold:
    """The lane of a ZooKeeper server, or of the ensemble. It has no holder while it is down; the note says why."""
    kind = SERVER if isinstance(event, ServerStateChanged) else ENSEMBLE
    if event.state in DOWN:
        return Hold(kind, event.actor, NOBODY, f"{event.state}: {event.cause}")
    return Hold(kind, event.actor, event.state)


def assigned_lanes(group: str) -> str:
    """The prefix of a broker-coordinated group's lanes."""
    return f"{group}: "


def assigned(event: AssignmentCompleted | MemberDeparted, held: Mapping[str, str]) -> Iterable[Hold]:
    """The new holders after an event. ``held``: the group's lanes with their previous holders."""
    if isinstance(event, MemberDeparted):
        return [Hold("assigned", lane, NOBODY) for lane, holder in held.items() if holder == event.member]
    now = {
        f"{assigned_lanes(event.group_id)}{tp}": member for member, tps in event.assignments.items() for tp in tps
    }
    note = f"generation {event.generation}" if event.generation >= 0 else ""
    given = [Hold("assigned", lane, member, note) for lane, member in now.items()]
    return [*given, *(Hold("assigned", lane, NOBODY) for lane in held if lane not in now)]


def _leader(topic: str, partition: int, znode: Znode | None) -> Hold | None:
    lane = f"{topic}-{partition}"
    if znode is None:
        return Hold("leader", lane, NOBODY)
    try:
        state = decode_state(topic, partition, znode.data)
    except InvalidZnode:
        return None
    isr = ",".join(map(str, state.isr))
    return Hold("leader", lane, f"broker {state.leader}" if state.leader >= 0 else NOBODY, isr)


def _text(znode: Znode | None) -> str:
    return NOBODY if znode is None else (znode.data or b"").decode(errors="replace")


def _broker_id(text: str) -> str:
    found = re.search(r'"brokerid"\s*:\s*(\d+)', text)
    return found[1] if found else "?"
