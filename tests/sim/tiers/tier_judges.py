"""Judges of tiered partitions: of the records that readers get, the objects in the bucket, and deletions.

They compare the bucket with the remote log metadata that brokers have read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from uuid import UUID

from kafka_zk.base.types import TopicPartition
from kafka_zk.sim.machine.object_store import BUCKET
from kafka_zk.storage.files import files
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.tiered.layout import KeyOwner
from kafka_zk.storage.tiered.local_tiered_storage import LocalTieredStorageLayout
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState

KnownSegments = Mapping[UUID, RemoteLogSegmentMetadata]
"""The remote segments that are not deleted, by id."""
_LAYOUT = LocalTieredStorageLayout()
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_RECORD_BYTES = 130
"""Upper bound for the size of a record with its batch."""
_UNSEEN = 10
"""Upper bound for the records that a deposed leader loses without an observation having seen them."""


def consecutive(time_ms: float, tp: TopicPartition, start: int, offsets: Sequence[int]) -> list[str]:
    """Check that a reader gets each offset from ``start`` on, once and in order: these topics are not compacted."""
    return [
        f"{time_ms:.3f}: a reader of {tp} got {offset} after {before}"
        for before, offset in pairwise([start - 1, *offsets])
        if offset != before + 1
    ]


def removed(time_ms: float, path: str, known: Sequence[KnownSegments]) -> list[str]:
    """Check that an object is removed only after a broker has read that its segment is being deleted, or if no broker
    can read the segment. ``known``: the segments that each broker knows.
    """
    segment_id = _owner(path).segment_id
    states = [each[segment_id].state if segment_id in each else None for each in known]
    if _FINISHED in states and all(state in (_FINISHED, None) for state in states):
        return [f"{time_ms:.3f}: {path} is removed, and no broker knows that its segment is deleted"]
    return []


def finished(known: KnownSegments) -> set[UUID]:
    """The ids of segments that can be read."""
    return {segment_id for segment_id, segment in known.items() if segment.state is _FINISHED}


def kept(time_ms: float, path: str, were_finished: Collection[UUID], topic_ids: Collection[UUID]) -> list[str]:
    """Check that an object of a topic without retention is removed only if the topic is deleted or its copy never
    finished.

    ``topic_ids``: of existing topics.
    """
    owner = _owner(path)
    if owner.topic_id in topic_ids and owner.segment_id in were_finished:
        return [f"{time_ms:.3f}: {path} is removed, and its topic keeps everything"]
    return []


def complete(time_ms: float, segments: Iterable[RemoteLogSegmentMetadata], were_removed: Collection[str]) -> list[str]:
    """Check that a readable segment has all its objects, unless a broker with newer metadata has deleted it.

    ``segments``: those that a broker knows as finished. ``were_removed``: paths of removed objects.
    """
    return [
        f"{time_ms:.3f}: the finished segment {segment.start_offset} of {segment.segment_id.tp} lacks {each.key}"
        for segment in segments
        for each in _LAYOUT.objects(segment, None)
        if each.is_required and not files.exists(f"{BUCKET}/{each.key}") and f"{BUCKET}/{each.key}" not in were_removed
    ]


def log_start(
    time_ms: float, tp: TopicPartition, log_start_offset: int, log_end_offset: int, retention_bytes: int | None
) -> list[str]:
    """Check that retention keeps at least ``retention_bytes``; None: everything.

    ``log_end_offset``: the highest one of any leader. Records that a deposed leader loses count, too.
    """
    if log_start_offset == 0:
        return []
    kept = log_end_offset - log_start_offset + _UNSEEN
    if retention_bytes is not None and kept * _RECORD_BYTES >= retention_bytes:
        return []
    return [f"{time_ms:.3f}: {tp} begins at {log_start_offset}, and ends at {log_end_offset}"]


def lag(tp: TopicPartition, log: Log, most_local_bytes: int) -> list[str]:
    """Check that local retention has deleted the segments that were copied."""
    size_bytes = sum(segment.size_bytes for segment in log.segments)
    return [f"{tp} has {size_bytes} local bytes"] if size_bytes > most_local_bytes else []


def orphans(known: KnownSegments, objects: Iterable[str], topic_ids: Collection[UUID]) -> list[str]:
    """Check that at rest, every object belongs to a segment in the metadata, and no copy or deletion is unfinished.

    ``topic_ids``: of existing topics; other topics must have no objects.
    """
    found = [
        f"segment {segment.start_offset} of {segment.segment_id.tp} stays in {segment.state.name}"
        for segment in known.values()
        if segment.state is not _FINISHED
    ]
    for path in objects:
        owner = _owner(path)
        if owner.topic_id not in topic_ids:
            found.append(f"{path} stays, and its topic is deleted")
        elif owner.segment_id not in known:
            found.append(f"{path} is an orphan")
    return found


def _owner(path: str) -> KeyOwner:
    owner = _LAYOUT.owner(path.removeprefix(f"{BUCKET}/"))
    assert owner is not None, path
    return owner
