"""Decides which findings of a tier check can be repaired, and which objects have to stay. Pure.

A repair deletes objects, so it must not guess. It deletes orphans of segments that the metadata do not know, copies of
brokers that are gone, and segments whose deletion was begun. ``refusal`` is called twice for each step: for the plan,
and with new facts right before the step is carried out. As long as a partition has gaps, or missing or damaged objects,
none of its objects is deleted, because they can be the only copy of a record. The same holds for an orphan that no
readable segment replaces: if the metadata lost its record, a leader may still rely on it and delete its own copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

from kafka_zk.storage.tiered.object_store import StoredObject
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog, gaps
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kafka_zk.storage.tiered.tier_check import Examined, Finding, Kind, LogFacts, TierFacts
from kafka_zk.storage.tiered.uuid_text import id_text

LEAST_AGE_MS = 7_200_000
"""An object that is younger, or a change that was begun later, is left alone. Our brokers give a copy up after 30
minutes; the rest allows for clocks that are wrong by more than an hour."""


class Action(Enum):
    DELETE_ORPHAN = "delete orphans"
    DELETE_COPY = "delete unfinished copy"
    END_DELETION = "end deletion"


_ACTIONS = {Kind.UNFINISHED_COPY: Action.DELETE_COPY, Kind.UNFINISHED_DELETE: Action.END_DELETION}
_ONLY_REPORTED = {
    Kind.TRAP: "brokers may still read or delete these segments; turn tiering on first",
    Kind.MISSING: "no repair can bring the object back",
    Kind.SIZE: "no repair can bring the content back",
    Kind.GAP: "no repair can bring the records back",
    Kind.DELETED_TOPIC: "the topic may only be hidden from you",
}
_HARMS = (Kind.MISSING, Kind.SIZE, Kind.GAP)


@dataclass(frozen=True, slots=True)
class RepairStep:
    """Deletes the objects of one segment. ``keys``: in the order of their deletion; some may not exist. ``sizes``: size
    in bytes of those that exist, by key. ``start_offset``: the segment's first offset. ``segment``: None for an orphan.
    """

    action: Action
    tp: TopicIdPartition
    segment_id: UUID
    keys: tuple[str, ...]
    sizes: Mapping[str, int]
    start_offset: int
    segment: RemoteLogSegmentMetadata | None = None

    @property
    def stem(self) -> str:
        """The prefix of all keys of the segment, and of no other object."""
        return self.keys[0].rpartition(".")[0] + "."

    def as_document(self) -> dict[str, Any]:
        return {
            "action": self.action.name, "topic": self.tp.topic, "topicId": id_text(self.tp.topic_id),
            "partition": self.tp.partition, "segmentId": id_text(self.segment_id), "keys": list(self.sizes),
            "bytes": sum(self.sizes.values()),
        }  # fmt: skip


class Kept(NamedTuple):
    """A finding, or the part of it that belongs to one segment, that is not repaired."""

    kind: Kind
    topic: str
    partition: int | None
    reason: str
    segment_id: UUID | None = None

    def as_document(self) -> dict[str, Any]:
        return {
            "kind": self.kind.name, "topic": self.topic, "partition": self.partition,
            "segmentId": None if self.segment_id is None else id_text(self.segment_id), "reason": self.reason,
        }  # fmt: skip


class StepFacts(NamedTuple):
    """What is known at this moment. ``is_tiered``: True, False, or the reason why it is unknown. ``log``: a text says
    why it is unknown. ``remote``: the partition's remote log. ``is_doubtful``: records of the partition could not be
    decoded. ``live_brokers``: ids. ``objects``: all that begin with the step's stem.
    """

    now_ms: int
    least_age_ms: int
    is_tiered: bool | str
    log: LogFacts | str
    remote: RemotePartitionLog
    is_doubtful: bool
    live_brokers: frozenset[int]
    objects: Sequence[StoredObject]


def candidates(facts: TierFacts, examined: Examined) -> tuple[list[tuple[Kind, RepairStep]], list[Kept]]:
    """The steps that may be planned if nothing speaks against them (``refusal``), and the findings that are not
    repaired."""
    harmed = {(each.topic, each.partition) for each in examined.findings if each.kind in _HARMS}
    steps: list[tuple[Kind, RepairStep]] = []
    kept: list[Kept] = []
    is_confirmed = _is_confirmed(facts)
    for finding in examined.findings:
        reason = _ONLY_REPORTED.get(finding.kind)
        if reason is None and (finding.topic, finding.partition) in harmed:
            reason = "the partition has gaps, or missing or damaged objects, and these may be the only copy of a record"
        if reason is not None:
            kept.append(Kept(finding.kind, finding.topic, finding.partition, reason))
        elif finding.segment is not None:
            step = _segment_step(facts, finding.kind, finding.segment)
            reason = _address_problem(facts, step, is_confirmed)
            if reason is None:
                steps.append((finding.kind, step))
            else:
                kept.append(Kept(finding.kind, finding.topic, finding.partition, reason, step.segment_id))
        elif finding.topic:
            steps += [(finding.kind, step) for step in _orphan_steps(facts, finding)]
        else:
            kept.append(Kept(finding.kind, "", None, f"{facts.layout.name} did not write these objects"))
    return steps, kept


def _is_confirmed(facts: TierFacts) -> bool:
    """True if an object of a finished segment is at the address, so that the address is the brokers'."""
    return any(
        each.key in facts.objects
        for log in facts.metadata.partitions.values()
        for segment in log.segments.values()
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        for each in facts.layout.objects(segment, None)
    )


def _segment_step(facts: TierFacts, kind: Kind, segment: RemoteLogSegmentMetadata) -> RepairStep:
    keys = tuple(each.key for each in reversed(facts.layout.objects(segment, None)))
    sizes = {key: facts.objects[key] for key in keys if key in facts.objects}
    tp, segment_id = segment.segment_id
    return RepairStep(_ACTIONS[kind], tp, segment_id, keys, sizes, segment.start_offset, segment)


def _address_problem(facts: TierFacts, step: RepairStep, is_confirmed: bool) -> str | None:
    """Why the objects of the step may be elsewhere. The metadata would then forget objects that remain."""
    owners = {facts.layout.owner(key) for key in step.keys}
    if any(owner is None or owner.segment_id != step.segment_id for owner in owners):
        return f"its metadata name objects that do not begin with {facts.layout.prefix!r}, or those of another segment"
    if not step.sizes and not is_confirmed:
        return "no object of any finished segment is at this address, so it may be the wrong one"
    return None


def _orphan_steps(facts: TierFacts, finding: Finding) -> list[RepairStep]:
    """One step for each segment id of the finding."""
    steps: dict[tuple[UUID, str], list[str]] = {}
    for key in finding.keys:
        owner = facts.layout.owner(key)
        assert owner is not None
        steps.setdefault((owner.segment_id, key.rpartition(".")[0]), []).append(key)
    found = []
    for (segment_id, _), keys in steps.items():
        owner = facts.layout.owner(keys[0])
        assert owner is not None
        tp = TopicIdPartition(owner.topic_id, owner.topic, owner.partition)
        ordered = tuple(sorted(keys, reverse=True))  # Aiven's manifest first: what remains is then no segment
        sizes = {key: facts.objects[key] for key in ordered}
        found.append(RepairStep(Action.DELETE_ORPHAN, tp, segment_id, ordered, sizes, owner.start_offset))
    return found


def refusal(step: RepairStep, facts: StepFacts) -> str | None:
    """Why the step must not be carried out at this moment; None if it may."""
    if facts.is_tiered is False:
        return "remote.storage.enable of the topic is not true"
    if facts.is_tiered is not True:
        return f"whether the topic is tiered is not known: {facts.is_tiered}"
    log = facts.log
    if isinstance(log, str):
        return f"gaps of the partition are not known: {log}"
    if facts.is_doubtful:
        return "records of the partition's metadata are not understood"
    if any(gaps(facts.remote, log.lineage, log.log_start_offset, log.local_log_start_offset)):
        return "the partition has a gap, and these objects may be the only copy of its records"
    segment = step.segment
    reason = _orphan_refusal(step, facts, log) if segment is None else _segment_refusal(step, segment, facts, log)
    return reason or _objects_refusal(step, facts)


def _orphan_refusal(step: RepairStep, facts: StepFacts, log: LogFacts) -> str | None:
    if step.segment_id in facts.remote.segments:
        return "the metadata know the segment by now"
    start = step.start_offset
    if start >= log.log_start_offset and any(gaps(facts.remote, log.lineage, start, start + 1)):
        return f"no readable segment has offset {start}: the metadata may have lost this one, and brokers may need it"
    return None


def _segment_refusal(
    step: RepairStep, segment: RemoteLogSegmentMetadata, facts: StepFacts, log: LogFacts
) -> str | None:
    if facts.remote.segments.get(step.segment_id) != segment:
        return "the metadata of the segment have changed since the check"
    if facts.now_ms - segment.event_timestamp_ms < facts.least_age_ms:
        return f"it was begun less than {facts.least_age_ms // 60_000} minutes ago"
    if step.action is not Action.DELETE_COPY:
        return None
    if segment.broker_id < 0:
        return "the metadata do not say which broker began the copy"
    if segment.broker_id in facts.live_brokers:
        return f"broker {segment.broker_id}, which began the copy, is alive and may finish it"
    if not _is_of_lineage(segment, log):
        return "the leader's log lost some of its records, and it may be their only copy"
    return None


def _is_of_lineage(segment: RemoteLogSegmentMetadata, log: LogFacts) -> bool:
    """False if an unclean election discarded records of the segment; those before the log start do not count."""
    starts = dict(log.lineage)
    starts[log.lineage[0][0]] = 0  # older offsets also belong to the first epoch
    ends = {epoch: start - 1 for (epoch, _), (_, start) in pairwise(log.lineage)}
    return all(
        epoch in starts and starts[epoch] <= max(start, log.log_start_offset) and last <= ends.get(epoch, last)
        for epoch, start, last in segment.epoch_ranges()
        if last >= log.log_start_offset
    )


def _objects_refusal(step: RepairStep, facts: StepFacts) -> str | None:
    if {each.key: each.size_bytes for each in facts.objects} != step.sizes:
        return "the objects have changed since the check"
    if any(facts.now_ms - each.modified_ms < facts.least_age_ms for each in facts.objects):
        return f"an object was written less than {facts.least_age_ms // 60_000} minutes ago"
    return None
