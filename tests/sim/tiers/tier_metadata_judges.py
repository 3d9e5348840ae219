"""Judges of the brokers' writes to ``__remote_log_metadata``: the writer, the time, and the segments."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from uuid import UUID

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.replica.partition import Role
from kafka_zk.sim.world.history import Fact, Lifted
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)

MetadataRecord = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate
_FINISHED, _DELETING = RemoteLogSegmentState.COPY_SEGMENT_FINISHED, RemoteLogSegmentState.DELETE_SEGMENT_STARTED


@dataclass
class MetadataWrite:
    """``read_ms``: when the broker had read its record back; infinite if it has not."""

    time_ms: float
    broker_id: int
    record: MetadataRecord
    read_ms: float = inf

    def __str__(self) -> str:
        tp, segment_id = self.record.segment_id
        name = f"{tp.topic}-{tp.partition}"
        return f"{self.time_ms:.3f}: broker {self.broker_id} writes {self.record.state.name} of {name} {segment_id}"


def attempts(writes: Iterable[MetadataWrite]) -> list[str]:
    """Check that every attempt to copy a segment has its own id."""
    broken = []
    begun: set[UUID] = set()
    for write in writes:
        if isinstance(write.record, RemoteLogSegmentMetadata):
            if write.record.segment_id.id in begun:
                broken.append(f"{write}, whose copy has begun before")
            begun.add(write.record.segment_id.id)
    return broken


def committed(write: MetadataWrite, high_watermark: int) -> list[str]:
    """Check that brokers copy only committed records."""
    record = write.record
    if isinstance(record, RemoteLogSegmentMetadata) and record.end_offset >= high_watermark:
        return [f"{write}, which ends at {record.end_offset}, and the high watermark is {high_watermark}"]
    return []


def leaders(writes: Iterable[MetadataWrite], facts: Iterable[Fact], recreated: str) -> list[str]:
    """Check that only a broker that considers itself the leader begins a copy or a deletion.

    ``recreated``: a topic whose segments all its replicas delete when it is deleted.
    """
    terms = _Terms(facts)
    return [
        f"{write}, and does not lead"
        for write in writes
        if (isinstance(write.record, RemoteLogSegmentMetadata) or write.record.state is _DELETING)
        and write.record.segment_id.tp.topic != recreated
        and terms.began_ms(write) is None
    ]


def copies(writes: Sequence[MetadataWrite], facts: Iterable[Fact]) -> list[str]:
    """Check that a leader copies no segment that was copied before its term: it reads all metadata first."""
    terms = _Terms(facts)
    begun = {
        write.record.segment_id.id: write.record
        for write in writes
        if isinstance(write.record, RemoteLogSegmentMetadata)
    }
    ended: dict[TopicIdPartition, dict[UUID, float]] = {}
    broken = []
    for write in writes:
        tp, key = write.record.segment_id
        copied = ended.setdefault(tp, {})
        if write.record.state is _FINISHED:
            copied[key] = write.read_ms
        elif write.record.state is _DELETING:
            copied.pop(key, None)
        elif isinstance(write.record, RemoteLogSegmentMetadata):
            term_ms = terms.began_ms(write)
            for other, read_ms in copied.items():
                if term_ms is not None and read_ms < term_ms and _covers(begun[other], write.record):
                    broken.append(f"{write}, which {other} has since {read_ms:.3f}; the term began at {term_ms:.3f}")
    return broken


def _covers(copied: RemoteLogSegmentMetadata, copy: RemoteLogSegmentMetadata) -> bool:
    return copied.start_offset <= copy.start_offset and copy.end_offset <= copied.end_offset


class _Terms:
    """The times in which brokers led partitions. A change of only the epoch does not begin a new term."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._changes: dict[tuple[str, TopicPartition], list[tuple[float, bool]]] = {}
        for actor, time_ms, event in _roles(facts):
            changes = self._changes.setdefault((actor, event.partition), [])
            is_leader = event.role is Role.LEADER
            if not changes or changes[-1][1] != is_leader:
                changes.append((time_ms, is_leader))

    def began_ms(self, write: MetadataWrite) -> float | None:
        """The beginning of the term in which a broker writes; None if it does not lead."""
        tp = write.record.segment_id.tp
        changes = self._changes.get((f"broker-{write.broker_id}", TopicPartition(tp.topic, tp.partition)), [])
        at = bisect_right(changes, (write.time_ms, True)) - 1
        time_ms, is_leader = changes[at] if at >= 0 else (0.0, False)
        return time_ms if is_leader else None


def _roles(facts: Iterable[Fact]) -> Iterator[tuple[str, float, RoleChanged]]:
    for fact in facts:
        if isinstance(fact, Lifted) and isinstance(fact.event, RoleChanged):
            yield fact.actor, fact.time_ms, fact.event
