"""Converts the facts of a scenario to lines: an actor, and a sentence from the recorder's table. Pure.

If a safeguard acted, its sentence begins with SAFEGUARD. Routine events are omitted by default.
"""

import re
from typing import NamedTuple

from kafka_zk.base.events import Event
from kafka_zk.broker.controller import events as controller
from kafka_zk.broker.group import events as coordinator
from kafka_zk.broker.replica.events import IsrChanged
from kafka_zk.rebalance import events as group
from kafka_zk.recorder.timeline.names import GroupNames
from kafka_zk.recorder.timeline.sentences import Mark, sentence
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import Reread, WatchArmed, WatchFired
from kafka_zk.sim.world.clients import BROKER_GROUP, GROUP
from kafka_zk.sim.world.history import (
    Acked,
    Began,
    Chosen,
    Committed,
    Ended,
    Fact,
    HandedOut,
    Happened,
    Lifted,
    Refused,
    Sent,
    Stored,
)

SAFEGUARD = Mark.SAFEGUARD.value
_QUIET = (
    WatchArmed, Reread, controller.PartitionsMoved, controller.ReplicasMoved, controller.RequestSent,
    controller.IsrsChanged, IsrChanged, coordinator.MemberSynced, coordinator.MemberToldToRejoin,
    coordinator.MemberIdAssigned, group.Committed, group.RebalanceStarted, group.StrategyChosen, group.DeliveryStopped,
    group.DeliveryStarted,
)  # fmt: skip
_GENERATED_ID = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PREFIX = re.compile(rf"\b{GROUP}_(?=\w)")
_NAMES = GroupNames(GROUP)


class Told(NamedTuple):
    """``who``: a broker, member or producer; "" for the world."""

    time_ms: float
    who: str
    sentence: str


def told(fact: Fact, everything: bool = False) -> Told | None:
    match fact:
        case Sent():
            return Told(fact.time_ms, fact.actor, f"sends {_value(fact.value)} to {fact.tp}")
        case Acked():
            where = f"{fact.tp} offset {fact.offset}"
            return Told(fact.time_ms, fact.actor, f"{_value(fact.value)} is acknowledged: {where}")
        case Refused():
            return Told(fact.time_ms, fact.actor, f"{_value(fact.value)} is not sent to {fact.tp}: {fact.error}")
        case Began():
            return Told(fact.time_ms, fact.actor, "begins a transaction")
        case Ended():
            how = "committed" if fact.is_committed else "aborted"
            return Told(fact.time_ms, fact.actor, f"knows that its transaction is {how}")
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
            said = _sentence(fact.event, everything)
            return None if said is None else Told(fact.time_ms, _named(fact.event.actor), _named(said))


def _sentence(event: Event, everything: bool) -> str | None:
    if not everything and (isinstance(event, _QUIET) or _is_dropped_watch(event)):
        return None
    said = sentence(event, _NAMES)
    if said is None:
        return f"{event}" if everything else None
    return f"{said.mark.value}{said}" if said.mark in (Mark.SAFEGUARD, Mark.WARNING) else f"{said}"


def _is_dropped_watch(event: Event) -> bool:
    return isinstance(event, WatchFired) and event.type is EventType.NONE


def _value(value: str) -> str:
    return value.rpartition(":")[2]


def _named(text: str) -> str:
    return _PREFIX.sub("", _GENERATED_ID.sub("", text)).replace(BROKER_GROUP, "the group")
