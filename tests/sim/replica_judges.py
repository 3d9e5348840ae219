"""Judges of replication: watermarks, leader epochs, controllers, the ISR and logs, over samples of a run.

A sample is the state of a broker or a state znode at one moment. Each judge returns violations as sentences. Tests:
tests/sim/test_replica_judges.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import ControllerElected, TopicDeleted
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.replica.partition import Role
from kafka_zk.sim.world.history import Fact, Lifted


class StateSample(NamedTuple):
    """The content of a partition's state znode from this moment on."""

    time_ms: float
    tp: TopicPartition
    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    zk_version: int


class ReplicaSample(NamedTuple):
    """A broker's replica of a partition at this moment."""

    broker_id: int
    is_leader: bool
    leader_epoch: int
    high_watermark: int
    log_end_offset: int


class EndSeen(NamedTuple):
    """The end of a partition that a client received."""

    time_ms: float
    tp: TopicPartition
    offset: int


class LoggedBatch(NamedTuple):
    """A batch in a replica's log. ``digest``: of all its bytes."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    digest: str


class ReplicaLog(NamedTuple):
    """A replica's whole log. A power loss does not affect records before ``durable_end``."""

    broker_id: int
    high_watermark: int
    log_start_offset: int
    batches: Sequence[LoggedBatch]
    durable_end: int = 0


def watermark(time_ms: float, state: StateSample, replicas: Mapping[int, ReplicaSample]) -> list[str]:
    """Check that every live member of the ISR has all records below the leader's high watermark.

    ``replicas``: the replicas in the current leader epoch, by broker.
    """
    leader = replicas.get(state.leader)
    if leader is None or not leader.is_leader or leader.leader_epoch != state.leader_epoch:
        return []
    return [
        f"{time_ms:.3f}: the high watermark of {state.tp} is {leader.high_watermark} at its leader {state.leader}, but"
        f" broker {broker_id} of the ISR {state.isr} has {replicas[broker_id].log_end_offset}"
        for broker_id in state.isr
        if broker_id in replicas
        and replicas[broker_id].leader_epoch == state.leader_epoch
        and replicas[broker_id].log_end_offset < leader.high_watermark
    ]


def states(samples: Iterable[StateSample]) -> list[str]:
    """Check that leader epochs and controller epochs never decrease, that an epoch has one leader, and that a new
    leader was in the ISR.
    """
    broken = []
    last: dict[TopicPartition, StateSample] = {}
    for sample in samples:
        before = last.get(sample.tp)
        last[sample.tp] = sample
        if before is None:
            continue
        change = f"{sample.time_ms:.3f}: {sample.tp} went from {before[2:]} to {sample[2:]}"
        if sample.leader_epoch < before.leader_epoch or sample.controller_epoch < before.controller_epoch:
            broken.append(f"{change}: an epoch went back")
        elif sample.leader_epoch == before.leader_epoch and sample.leader != before.leader:
            broken.append(f"{change}: two leaders in an epoch")
        elif sample.zk_version == before.zk_version + 1 and sample.leader not in (-1, *before.isr):
            broken.append(f"{change}: the leader was not in sync")
        if not sample.isr:
            broken.append(f"{change}: nobody is in sync")
    return broken


def acknowledged(
    time_ms: float, tp: TopicPartition, offset: int, min_insync_replicas: int, ends: Mapping[int, int | None]
) -> list[str]:
    """Check that a record acknowledged with acks=all is on ``min.insync.replicas`` brokers, including dead ones.

    ``ends``: the log end offsets of all brokers, None if unknown.
    """
    have = [broker_id for broker_id, end in ends.items() if end is None or end > offset]
    if len(have) >= min_insync_replicas:
        return []
    return [f"{time_ms:.3f}: {tp}@{offset} is acknowledged, and only brokers {have} have it: logs end at {ends}"]


def durable(time_ms: float, tp: TopicPartition, logs: Iterable[ReplicaLog]) -> list[str]:
    """Check that replicas of a flushed topic are durable up to their high watermarks."""
    return [
        f"{time_ms:.3f}: broker {log.broker_id} has {tp} durable up to {log.durable_end}, and {log.high_watermark} is"
        " its high watermark"
        for log in logs
        if log.durable_end < log.high_watermark
    ]


def leaders(facts: Iterable[Fact]) -> list[str]:
    """Check that a partition has at most one leader in a leader epoch, while the topic exists."""
    broken = []
    led: dict[tuple[TopicPartition, int], str] = {}
    for fact in facts:
        if isinstance(fact, Lifted) and isinstance(fact.event, TopicDeleted):
            led = {key: leader for key, leader in led.items() if key[0].topic != fact.event.topic}
        elif isinstance(fact, Lifted) and isinstance(fact.event, RoleChanged) and fact.event.role is Role.LEADER:
            event = fact.event
            known = led.setdefault((event.partition, event.leader_epoch), event.actor)
            if known != event.actor:
                broken.append(
                    f"{fact.time_ms}: {event.actor} leads {event.partition} in epoch {event.leader_epoch}, as {known}"
                )
    return broken


class StateWrite(NamedTuple):
    """The write of a state: the writer, and the epoch in ``/controller_epoch`` at that time."""

    broker_id: int
    newest_epoch: int
    state: StateSample


def writers(facts: Iterable[Fact], writes: Iterable[StateWrite]) -> list[str]:
    """Check that only the controller of an epoch writes in that epoch, and only while it is the newest."""
    elected = {
        fact.event.epoch: int(fact.event.actor.rpartition("-")[2])
        for fact in facts
        if isinstance(fact, Lifted) and isinstance(fact.event, ControllerElected)
    }
    return [
        f"{state.time_ms:.3f}: broker {broker_id} wrote {state.tp} in epoch {state.controller_epoch} of"
        f" {elected.get(state.controller_epoch)}, while the epoch was {newest_epoch}"
        for broker_id, newest_epoch, state in writes
        if elected.get(state.controller_epoch, broker_id) != broker_id or state.controller_epoch != newest_epoch
    ]


def ends(seen: Iterable[EndSeen]) -> list[str]:
    """Check that a partition's end never decreases for a client."""
    broken = []
    last: dict[TopicPartition, int] = {}
    for each in seen:
        if each.offset < last.get(each.tp, 0):
            broken.append(f"{each.time_ms:.3f}: {each.tp} ended at {last[each.tp]}, and now at {each.offset}")
        last[each.tp] = each.offset
    return broken


def agreement(time_ms: float, tp: TopicPartition, logs: Sequence[ReplicaLog]) -> list[str]:
    """Check that any two replicas have the same batches up to the smaller high watermark."""
    broken = []
    for position, one in enumerate(logs):
        for other in logs[position + 1 :]:
            end = min(one.high_watermark, other.high_watermark)
            start = max(one.log_start_offset, other.log_start_offset)
            here, there = _between(one, start, end), _between(other, start, end)
            if here == there:
                continue
            parted = next(
                (pair for pair in zip(here, there, strict=False) if pair[0] != pair[1]), (here[-1:], there[-1:])
            )
            broken.append(
                f"{time_ms:.3f}: brokers {one.broker_id} and {other.broker_id} differ in {tp} below {end}:"
                f" {parted[0]} is not {parted[1]}"
            )
    return broken


class KeyedLog(NamedTuple):
    """Offset and key of every record in a replica of a compacted partition."""

    broker_id: int
    high_watermark: int
    records: Sequence[tuple[int, bytes]]


def last_records(time_ms: float, tp: TopicPartition, logs: Sequence[KeyedLog]) -> list[str]:
    """Check for each key: if one replica has a record below another replica's high watermark, the other has it, or a
    later one of the key.
    """
    broken = []
    for one in logs:
        for other in logs:
            there = {key: offset for offset, key in other.records}
            here = {key: offset for offset, key in one.records if offset < other.high_watermark}
            broken += [
                f"{time_ms:.3f}: {other.broker_id} lacks {key!r}@{offset} of {tp}, which {one.broker_id} has"
                for key, offset in here.items()
                if there.get(key, -1) < offset
            ]
    return broken


def _between(log: ReplicaLog, start: int, end: int) -> list[LoggedBatch]:
    return [batch for batch in log.batches if batch.last_offset >= start and batch.base_offset < end]
