"""What happened in a scenario as lines for people: who, and a sentence. Pure.

Safeguards that acted are marked: their sentences begin with SAFEGUARD. What only says that everything goes on as it
always does is left out, unless everything is wanted. Tests: tests/sim/test_scenarios.py.
"""

import re
from functools import singledispatch
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.broker.controller import events as controller
from kafka_zk.broker.group import events as coordinator
from kafka_zk.broker.replica import events as replica
from kafka_zk.rebalance import events as group
from kafka_zk.recorder.timeline.narrator import Narrator
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, WatchArmed, WatchFired
from kafka_zk.sim.clients import BROKER_GROUP, GROUP
from kafka_zk.sim.history import Acked, Chosen, Committed, Fact, HandedOut, Happened, Lifted, Refused, Sent, Stored

SAFEGUARD = "SAFEGUARD: "
_QUIET = (
    WatchArmed, Reread, controller.PartitionsMoved, controller.ReplicasMoved, controller.ControllerChanged,
    controller.RequestSent, coordinator.MemberSynced, coordinator.MemberToldToRejoin, coordinator.MemberIdAssigned,
    group.Committed, group.RebalanceStarted, group.StrategyChosen, group.DeliveryStopped, group.DeliveryStarted,
)  # fmt: skip
_GENERATED_ID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PREFIX = re.compile(rf"\b{GROUP}_(?=\w)")
_narrator = Narrator(GROUP)


class Told(NamedTuple):
    """``who``: a broker, a member, a producer; "" for the world."""

    time_ms: float
    who: str
    sentence: str


def told(fact: Fact, everything: bool = False) -> Told | None:
    """None for what is left out."""
    match fact:
        case Sent():
            return Told(fact.time_ms, fact.actor, f"sends {_value(fact.value)} to {fact.tp}")
        case Acked():
            where = f"{fact.tp} offset {fact.offset}"
            return Told(fact.time_ms, fact.actor, f"{_value(fact.value)} is acknowledged: {where}")
        case Refused():
            return Told(fact.time_ms, fact.actor, f"{_value(fact.value)} is not sent to {fact.tp}: {fact.error}")
        case HandedOut():
            who = _named(fact.actor)
            return Told(fact.time_ms, who, f"reads {_value(fact.value)}: {fact.tp} offset {fact.offset}")
        case Committed():
            return Told(fact.time_ms, fact.actor, f"has committed {fact.tp} at {fact.offset}")
        case Chosen():
            return Told(fact.time_ms, fact.actor, f"commits {fact.tp} at {fact.offset}, which its program has chosen")
        case Stored():
            return Told(fact.time_ms, "ZooKeeper", f"the offset of {fact.tp} is {fact.offset} now")
        case Happened():
            return Told(fact.time_ms, "", fact.text)
        case Lifted():
            sentence = _sentence(fact.event, everything)
            return None if sentence is None else Told(fact.time_ms, _named(fact.event.actor), _named(sentence))


def _sentence(event: Event, everything: bool) -> str | None:
    if not everything and isinstance(event, _QUIET):
        return None
    if not everything and isinstance(event, WatchFired) and event.type is EventType.NONE:
        return None
    return _own_sentence(event) or _narrator.sentence(event) or (f"{event}" if everything else None)


@singledispatch
def _own_sentence(event: Event) -> str | None:
    """Of what the narrator of groups has no words for, or others than a scenario needs."""
    return None


@_own_sentence.register
def _(event: controller.ControllerElected) -> str:
    return f"is elected controller, epoch {event.epoch}"


@_own_sentence.register
def _(event: controller.ControllerReady) -> str:
    return "has read the whole state of the cluster and acts as its controller"


@_own_sentence.register
def _(event: controller.ControllerResigned) -> str:
    return f"is not the controller any more: {event.cause}"


@_own_sentence.register
def _(event: controller.BrokersChanged) -> str | None:
    changes = (("came", event.started), ("went", event.failed), ("came back", event.bounced))
    said = [f"broker {', '.join(map(str, which))} {what}" for what, which in changes if which]
    return f"sees that {' and '.join(said)}" if said else None


@_own_sentence.register
def _(event: controller.LeadersElected) -> str:
    led = ", ".join(f"{tp} by {info.leader if info.leader >= 0 else 'nobody'}" for tp, info in event.leadership)
    return f"decides who leads: {led}"


@_own_sentence.register
def _(event: controller.ChangesRefused) -> str:
    return f"cannot do it: {'; '.join(str(each) for each in event.refused)}"


@_own_sentence.register
def _(event: controller.TopicDeleted) -> str:
    return f"has deleted topic {event.topic}: logs and znodes are gone"


@_own_sentence.register
def _(event: controller.RequestFailed) -> str:
    return f"{event.api} to broker {event.broker_id} failed: {event.cause}"


@_own_sentence.register
def _(event: replica.RoleChanged) -> str:
    refusal = f", but cannot serve it: {event.refusal.name}" if event.refusal is not None else ""
    return f"is {event.role.value} of {event.partition}, leader epoch {event.leader_epoch}{refusal}"


@_own_sentence.register
def _(event: replica.ReplicaStopped) -> str:
    return f"stops its replica of {event.partition}{' and deletes its log' if event.deleted else ''}"


@_own_sentence.register
def _(event: replica.ControllerIgnored) -> str:
    return (
        f"{SAFEGUARD}ignores a request of a controller of epoch {event.controller_epoch}:"
        f" it knows epoch {event.known_epoch}"
    )


@_own_sentence.register
def _(event: group.CommitRefused) -> str:
    return f"{SAFEGUARD}its commit of {event.partition} is refused: {event.reason}"


@_own_sentence.register
def _(event: group.LeaseEnded) -> str:
    return f"{SAFEGUARD}its lease has ended, so it delivers nothing: ZooKeeper may have given its partitions away"


@_own_sentence.register
def _(event: group.Released) -> str | None:
    return f"{SAFEGUARD}does not touch {_tps(event.not_ours)}: another member owns it" if event.not_ours else None


@_own_sentence.register
def _(event: group.OwnershipLost) -> str:
    return f"{SAFEGUARD}delivers nothing more of {_tps(event.partitions)}: {event.cause}"


@_own_sentence.register
def _(event: coordinator.AssignmentCompleted) -> str:
    gets = ", ".join(f"{member} gets {_tps(tps)}" for member, tps in event.assignments.items())
    return f"generation {event.generation} of the group: {gets}"


def _tps(tps: "tuple[object, ...]") -> str:
    return ", ".join(str(tp) for tp in tps) or "nothing"


def _value(value: str) -> str:
    return value.rpartition(":")[2]


def _named(text: str) -> str:
    """Without the random ends of ids."""
    return _PREFIX.sub("", _GENERATED_ID.sub("", text)).replace(BROKER_GROUP, "the group")
