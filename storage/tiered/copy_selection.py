"""Selects the segments of a local log that a leader copies to remote storage. Pure.

Copying continues after the last offset that was ever copied, and fills no gaps before that offset. In the metadata, a
segment would hide an older one that begins at the same offset of an epoch, even if the older one is longer. The remote
log manager calls this for each partition that the broker leads.
Source: RemoteLogManager.RLMCopyTask.candidateLogSegments@3.9.
"""

from typing import NamedTuple

from kafka_zk.storage.tiered.epoch_lineage import epochs_within, latest_tiered_offset
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.tiered_replica import LocalSegment, TieredReplica


class CopyCandidate(NamedTuple):
    """A closed segment. ``leader_epochs``: (epoch, its first offset in the segment)."""

    segment: LocalSegment
    leader_epochs: tuple[tuple[int, int], ...]


def copy_lag(log: RemotePartitionLog, leader: TieredReplica) -> tuple[int, int]:
    """(Bytes, number) of the closed segments that are not copied yet, including those that wait for transactions to
    end."""
    copied = latest_tiered_offset(log, leader.lineage, leader.log_end_offset)
    waiting = [each.size_bytes for each in leader.segments[:-1] if each.next_offset > copied + 1]
    return sum(waiting), len(waiting)


def segments_to_copy(log: RemotePartitionLog, leader: TieredReplica, last_stable_offset: int) -> list[CopyCandidate]:
    """The segments to copy, oldest first: those that are closed, end below the last stable offset, and have an offset
    after the last copied one. The first segment without leader epochs (a message format before 2) ends the selection.

    ``log`` must be complete, because a segment whose metadata the leader has not read would be copied again, and its
    new copy might hide it.
    """
    copied = latest_tiered_offset(log, leader.lineage, leader.log_end_offset)
    first = max(copied + 1, leader.log_start_offset)
    found: list[CopyCandidate] = []
    for segment in leader.segments[:-1]:
        if segment.next_offset > last_stable_offset:
            break
        if segment.next_offset <= first:
            continue
        epochs = epochs_within(leader.lineage, segment.base_offset, segment.next_offset - 1)
        if not epochs:
            break
        found.append(CopyCandidate(segment, epochs))
    return found
