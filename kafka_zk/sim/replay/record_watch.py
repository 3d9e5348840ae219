"""Examines the replicas of a stage after each scheduled call, and reports changes to their records.

It compares offsets, and reads a broker's disk only if an offset has changed. A dead broker's disk is also read, after
each action.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from kafka_zk.base.types import TopicPartition
from kafka_zk.recorder.timeline.record_events import (
    UNKNOWN,
    RecordAcknowledged,
    RecordEvent,
    RecordRead,
    ReplicaSeen,
)
from kafka_zk.sim.scenarios.stage import Stage
from kafka_zk.sim.world.history import Acked, Fact, HandedOut
from kafka_zk.sim.world.replica_contents import on_disk
from kafka_zk.sim.world.world import SimBroker

MOST_VALUES = 64
"""How many of a replica's last values are reported."""
_PARTITION = re.compile(r"(.+)-(\d+)")
_Offsets = Mapping[TopicPartition, tuple[int, int]]


class RecordWatch:
    """``tell``: called with each event, whose time is the world's time in ms."""

    def __init__(self, stage: Stage, tell: Callable[[RecordEvent], object]) -> None:
        self._world = stage.world
        self._tell = tell
        self._offsets: dict[str, _Offsets] = {}
        self._seen: dict[tuple[str, TopicPartition], ReplicaSeen] = {}
        stage.world.scheduler.clock.run_call = self._call

    def _call(self, call: Callable[..., object], arguments: tuple[object, ...]) -> None:
        call(*arguments)
        for broker in self._world.brokers.values():
            if broker.is_started and self._offsets.get(broker.name) != (now := _offsets(broker)):
                self._offsets[broker.name] = now
                self._read(broker)

    def look(self) -> None:
        """Read every disk, because an action may have changed the disk of a broker that is not serving."""
        for broker in self._world.brokers.values():
            self._read(broker)

    def _read(self, broker: SimBroker) -> None:
        marks = self._offsets.get(broker.name, {})
        found = dict(_replicas(on_disk(self._world, broker)))
        gone = {tp for name, tp in self._seen if name == broker.name} - found.keys()
        for tp in sorted({*found, *gone}):
            records = found.get(tp, [])[-MOST_VALUES:]
            event = ReplicaSeen(
                int(self._world.now_ms), broker.name, "", 0, tp, tp in found, records[0][0] if records else 0,
                tuple(value for _, value in records), marks[tp][1] if tp in marks and tp in found else UNKNOWN,
            )  # fmt: skip
            before = self._seen.get((broker.name, tp))
            if before is None or replace(before, time_ms=event.time_ms) != event:
                self._seen[broker.name, tp] = event
                self._tell(event)


def event_of(fact: Fact) -> RecordEvent | None:
    """The event of an acknowledgement or a read; None for other facts."""
    match fact:
        case Acked():
            return RecordAcknowledged(int(fact.time_ms), fact.actor, "", 0, fact.tp, fact.offset, _value(fact.value))
        case HandedOut():
            return RecordRead(int(fact.time_ms), fact.actor, "", 0, fact.tp, fact.offset, _value(fact.value))
    return None


def _offsets(broker: SimBroker) -> _Offsets:
    """Log end offset and high watermark of each replica."""
    if broker.broker is None:
        return {}
    partitions = broker.broker.services.replicas.partitions
    return {
        tp: (each.log.log_end_offset, each.log.high_watermark)
        for tp, each in partitions.items()
        if each.log is not None and not tp.topic.startswith("__")
    }


def _replicas(folders: Mapping[str, list[tuple[int, str]]]) -> Iterator[tuple[TopicPartition, list[tuple[int, str]]]]:
    """The records of each partition, without folders that wait to be deleted."""
    for name, records in folders.items():
        found = _PARTITION.fullmatch(name)
        if found is not None:
            yield TopicPartition(found[1], int(found[2])), records


def _value(value: str) -> str:
    return value.rpartition(":")[2]
