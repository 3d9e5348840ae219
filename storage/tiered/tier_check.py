"""Compares a cluster's remote log metadata with the objects in its bucket. Pure.

``examine`` receives facts that were read one after another while brokers copied and deleted segments, so a single look
may see half of a change. A finding counts only if two looks find it for the same object, offsets or segment.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

from kafka_zk.storage.tiered.layout import KeyOwner, Layout
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogMetadata, RemotePartitionLog, gaps
from kafka_zk.storage.tiered.segment_manifest import ManifestSizes
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kafka_zk.storage.tiered.uuid_text import id_text

Offsets = tuple[int, int]
"""The first and the last offset of a range."""


class Kind(Enum):
    """The kinds of findings, in the order of the report."""

    TRAP = "tiering is turned off"
    MISSING = "missing object"
    SIZE = "wrong size or content"
    GAP = "gap"
    UNFINISHED_COPY = "unfinished copy"
    UNFINISHED_DELETE = "unfinished deletion"
    DELETED_TOPIC = "deleted topic"
    ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class Finding:
    """``subject``: the topic, partition or object of the finding, the same in each look. ``size_bytes``: total size of
    the listed objects of the finding. ``offsets``: the offsets of a gap. ``segment``: the one of an unfinished change.
    """

    kind: Kind
    topic: str
    partition: int | None
    subject: str
    said: str
    size_bytes: int = 0
    keys: tuple[str, ...] = ()
    offsets: Offsets | None = None
    segment: RemoteLogSegmentMetadata | None = None

    def as_document(self) -> dict[str, Any]:
        return {
            "kind": self.kind.name, "topic": self.topic, "partition": self.partition, "said": self.said,
            "bytes": self.size_bytes, "keys": list(self.keys),
        }  # fmt: skip


class TopicFacts(NamedTuple):
    """``is_tiered``: True, False, or the reason why it is unknown."""

    name: str
    is_tiered: bool | str


class LogFacts(NamedTuple):
    """A partition's log at its leader. ``lineage``: (leader epoch, its start offset), ascending, at least one.

    The offsets in ``[log_start_offset, local_log_start_offset)`` exist only in the bucket.
    """

    log_start_offset: int
    local_log_start_offset: int
    lineage: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class TierFacts:
    """``topics``: the cluster's topics, by id. ``logs``: by partition; a text says why the log is unknown.
    ``manifests``: by segment id; a text describes the problem of a manifest. ``objects``: size in bytes by key.
    ``only``: ids of the topics to which the check is limited; None for all. ``unreadable``: the number of records that
    could not be decoded, by partition of ``__remote_log_metadata``. ``begun_since``: segments whose first record was
    read after the objects; ``metadata`` was read before the objects.
    """

    now_ms: int
    older_than_ms: int
    topics: Mapping[UUID, TopicFacts]
    logs: Mapping[TopicIdPartition, LogFacts | str]
    metadata: RemoteLogMetadata
    layout: Layout
    objects: Mapping[str, int]
    manifests: Mapping[UUID, ManifestSizes | str] = field(default_factory=dict)
    only: frozenset[UUID] | None = None
    unreadable: Mapping[int, int] = field(default_factory=dict)
    metadata_partition_count: int = 1
    begun_since: Sequence[RemoteLogSegmentMetadata] = ()

    def is_doubtful(self, topic_id: UUID, partition: int) -> bool:
        """True if a record that could not be decoded may belong to this partition."""
        return bool(self.unreadable) and (
            metadata_partition(topic_id, partition, self.metadata_partition_count) in self.unreadable
        )


class Examined(NamedTuple):
    """``not_checked``: what could not be examined, and why. ``segment_count``: number of finished
    segments. ``unreachable_count``: how many of them no reader finds, because they were replaced or are of a lost
    lineage."""

    findings: list[Finding]
    not_checked: list[str]
    segment_count: int
    segment_bytes: int
    unreachable_count: int
    unreachable_bytes: int


def examine(facts: TierFacts, first: Examined | None = None) -> Examined:
    """The findings in the order of ``Kind``, then by topic and partition.

    ``first``: the result of an earlier look. If it is given, only findings of both looks are returned, with everything
    that either look could not check.
    """
    explained = {each.key for segment in facts.begun_since for each in facts.layout.objects(segment, None)}
    findings: list[Finding] = []
    not_checked: list[str] = []
    totals = [0, 0, 0, 0]
    seen = None if first is None else _Seen(first.findings)
    for tp, log in sorted(facts.metadata.partitions.items(), key=lambda each: (each[0].topic, each[0])):
        if facts.only is not None and tp.topic_id not in facts.only:
            continue
        part = _Partition(facts, tp, log, seen)
        findings += part.findings()
        not_checked += part.not_checked
        explained |= part.explained
        for at, number in enumerate(part.totals()):
            totals[at] += number
    findings += _traps(facts, not_checked)
    not_checked += [
        "orphans, gaps and unfinished changes of partitions whose metadata are in "
        f"{METADATA_TOPIC}-{number}: {count} {'record is' if count == 1 else 'records are'} not understood"
        for number, count in sorted(facts.unreadable.items())
    ]
    unexplained = [key for key in facts.objects if key not in explained and (seen is None or key in seen.orphans)]
    findings += _orphans(facts, unexplained, not_checked)
    if first is not None and seen is not None:
        findings = [each for each in findings if (each.kind, each.subject) in seen.subjects]
        not_checked = list(dict.fromkeys([*first.not_checked, *not_checked]))
    order = list(Kind)
    findings.sort(key=lambda each: (order.index(each.kind), each.topic, each.partition or 0, each.subject))
    return Examined(findings, not_checked, *totals)


class _Seen:
    """What an earlier look found. ``gaps``: by partition; ``orphans``: keys of orphaned objects."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.subjects: set[tuple[Kind, str]] = set()
        self.gaps: dict[str, list[Offsets]] = {}
        self.orphans: set[str] = set()
        for each in findings:
            self.subjects.add((each.kind, each.subject))
            if each.offsets is not None:
                self.gaps.setdefault(each.subject, []).append(each.offsets)
            if each.kind is Kind.ORPHAN:
                self.orphans.update(each.keys)


class _Partition:
    """Examines the remote log of one partition. ``explained``: keys that belong to one of its segments."""

    def __init__(self, facts: TierFacts, tp: TopicIdPartition, log: RemotePartitionLog, seen: _Seen | None) -> None:
        self._facts = facts
        self._tp = tp
        self._is_doubtful = facts.is_doubtful(tp.topic_id, tp.partition)
        self._seen = seen
        self._log = log
        self._segments = sorted(log.segments.values(), key=lambda each: (each.start_offset, each.segment_id.id))
        self.explained: set[str] = set()
        self.not_checked: list[str] = []
        self._elsewhere_count = 0

    def findings(self) -> Iterator[Finding]:
        is_deleted = self._tp.topic_id not in self._facts.topics
        kept: list[RemoteLogSegmentMetadata] = []
        for segment in self._segments:
            objects = [each.key for each in self._facts.layout.objects(segment, None)]
            self.explained.update(objects)
            if is_deleted:
                kept.append(segment)
            elif segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
                yield from self._finished(segment)
            elif not self._is_doubtful:
                yield from self._unfinished(segment, objects)
        if self._elsewhere_count:
            where, prefix = f"{self._tp.topic}-{self._tp.partition}", self._facts.layout.prefix
            self.not_checked.append(f"{self._elsewhere_count} objects of {where} have a prefix other than {prefix!r}")
        if is_deleted:
            yield self._leftovers(kept)
        elif not self._is_doubtful:
            yield from self._gaps()

    def totals(self) -> tuple[int, int, int, int]:
        finished = [each for each in self._segments if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
        facts = self._facts.logs.get(self._tp)
        lost = self._log.unreachable(epoch for epoch, _ in facts.lineage) if isinstance(facts, LogFacts) else []
        sizes = [sum(each.size_bytes for each in segments) for segments in (finished, lost)]
        return len(finished), sizes[0], len(lost), sizes[1]

    def _finding(self, kind: Kind, segment: RemoteLogSegmentMetadata, said: str, keys: Sequence[str]) -> Finding:
        size = sum(self._facts.objects.get(key, 0) for key in keys)
        subject = f"{id_text(segment.segment_id.id)} {keys[0] if kind is Kind.SIZE else ''}"
        where = f"offsets {segment.start_offset} to {segment.end_offset}"
        return Finding(kind, self._tp.topic, self._tp.partition, subject, f"{where}: {said}", size, tuple(keys))

    def _finished(self, segment: RemoteLogSegmentMetadata) -> Iterator[Finding]:
        manifest = self._facts.manifests.get(segment.segment_id.id)
        missing: list[str] = []
        for each in self._facts.layout.objects(segment, None if isinstance(manifest, str) else manifest):
            size = self._facts.objects.get(each.key)
            if not each.key.startswith(self._facts.layout.prefix):
                self._elsewhere_count += 1
            elif size is None:
                missing += [each.key] * each.is_required
            elif each.size_bytes is not None and size != each.size_bytes:
                said = f"{each.key} has {size} bytes, but was copied with {each.size_bytes}"
                yield self._finding(Kind.SIZE, segment, said, [each.key])
        if missing:
            more = f" and {len(missing) - 1} more objects do" if missing[1:] else " does"
            yield self._finding(Kind.MISSING, segment, f"{missing[0]}{more} not exist", missing)
        key = self._facts.layout.manifest_key(segment)
        if key is None or manifest is None:
            return
        if isinstance(manifest, str):
            yield self._finding(Kind.SIZE, segment, f"{key}: {manifest}", [key])
        elif manifest.original_bytes != segment.size_bytes:
            said = f"{key} is of {manifest.original_bytes} bytes, the metadata of {segment.size_bytes}"
            yield self._finding(Kind.SIZE, segment, said, [key])

    def _unfinished(self, segment: RemoteLogSegmentMetadata, objects: Sequence[str]) -> Iterator[Finding]:
        age_ms = self._facts.now_ms - segment.event_timestamp_ms
        if age_ms < self._facts.older_than_ms:
            return
        is_copy = segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
        kind = Kind.UNFINISHED_COPY if is_copy else Kind.UNFINISHED_DELETE
        present = [key for key in objects if key in self._facts.objects]
        said = f"begun {age_ms // 60_000} minutes ago, {len(present)} objects exist"
        yield replace(self._finding(kind, segment, said, present), segment=segment)

    def _leftovers(self, segments: Sequence[RemoteLogSegmentMetadata]) -> Finding:
        keys = tuple(sorted(key for key in self.explained if key in self._facts.objects))
        topic_id = id_text(self._tp.topic_id)
        said = f"{len(segments)} segments of topic id {topic_id}, which the cluster does not have or does not show you"
        size = sum(self._facts.objects[key] for key in keys)
        subject = _partition_text(self._tp.topic_id, self._tp.partition)
        return Finding(Kind.DELETED_TOPIC, self._tp.topic, self._tp.partition, subject, said, size, keys)

    def _gaps(self) -> Iterator[Finding]:
        facts = self._facts.logs.get(self._tp, "the leader was not asked")
        if isinstance(facts, str):
            self.not_checked.append(f"gaps of {self._tp.topic}-{self._tp.partition}: {facts}")
            return
        subject = _partition_text(self._tp.topic_id, self._tp.partition)
        found = list(gaps(self._log, facts.lineage, facts.log_start_offset, facts.local_log_start_offset))
        for first, last in found if self._seen is None else _common(self._seen.gaps.get(subject, ()), found):
            said = f"offsets {first} to {last} are in no readable segment, and no longer at the leader"
            yield Finding(Kind.GAP, self._tp.topic, self._tp.partition, subject, said, offsets=(first, last))


def _partition_text(topic_id: UUID, partition: int) -> str:
    return f"{id_text(topic_id)}-{partition}"


def _common(one: Sequence[Offsets], other: Sequence[Offsets]) -> Iterator[Offsets]:
    """The offsets that are in both sequences; each is ascending."""
    at, at_other = 0, 0
    while at < len(one) and at_other < len(other):
        first, last = max(one[at][0], other[at_other][0]), min(one[at][1], other[at_other][1])
        if first <= last:
            yield first, last
        at, at_other = at + (one[at][1] == last), at_other + (other[at_other][1] == last)


def _traps(facts: TierFacts, not_checked: list[str]) -> Iterator[Finding]:
    counts: dict[UUID, list[RemoteLogSegmentMetadata]] = {}
    for tp, log in facts.metadata.partitions.items():
        counts.setdefault(tp.topic_id, []).extend(log.segments.values())
    for topic_id, segments in counts.items():
        topic = facts.topics.get(topic_id)
        if topic is None or topic.is_tiered is True or (facts.only is not None and topic_id not in facts.only):
            continue
        if topic.is_tiered is not False:
            not_checked.append(f"whether {topic.name} is tiered: {topic.is_tiered}")
            continue
        size = sum(segment.size_bytes for segment in segments)
        said = (
            f"remote.storage.enable is not true, but {len(segments)} remote segments remain: brokers orphan them when "
            "they restart, and delete them if it is set to true again after that"
        )
        yield Finding(Kind.TRAP, topic.name, None, topic.name, said, size)


def _orphans(facts: TierFacts, unexplained: Iterable[str], not_checked: list[str]) -> Iterator[Finding]:
    """One finding for each partition with orphans, and one for the keys that the plugin would not write.

    A record that could not be decoded may explain any key of its partition, and any key that the plugin would not
    write, so such keys are not reported as orphans.
    """
    found: dict[tuple[str, int | None, str], list[str]] = {}
    foreign_count = 0
    for key in unexplained:
        owner = facts.layout.owner(key)
        if facts.only is not None and (owner is None or owner.topic_id not in facts.only):
            continue
        if owner is None and facts.unreadable:
            foreign_count += 1
        elif owner is None or not facts.is_doubtful(owner.topic_id, owner.partition):
            found.setdefault(_group(owner), []).append(key)
    if foreign_count:
        what = f"{foreign_count} objects that {facts.layout.name} would not write"
        not_checked.append(f"{what}: metadata that are not understood may explain them")
    for (topic, partition, subject), keys in found.items():
        what = "of no known segment" if topic else f"that {facts.layout.name} would not write"
        shown = ", ".join(sorted(keys)[:3]) + (", …" if len(keys) > 3 else "")
        said = f"{len(keys)} objects {what}: {shown}"
        size = sum(facts.objects[key] for key in keys)
        yield Finding(Kind.ORPHAN, topic, partition, subject, said, size, tuple(sorted(keys)))


def _group(owner: KeyOwner | None) -> tuple[str, int | None, str]:
    if owner is None:
        return "", None, ""
    return owner.topic, owner.partition, _partition_text(owner.topic_id, owner.partition)
