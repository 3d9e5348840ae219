"""Which segments of a local log a leader copies to remote storage. Pure.

Kafka continues after the highest offset that was ever copied. Here a segment is copied if the remote log lacks any of
its offsets, so that a copy that was lost, or deleted as unfinished, is made again while the local segment exists.
The broker's copy task will call this for each partition that it leads.
Source: RemoteLogManager.RLMCopyTask.candidateLogSegments@3.9.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kafka_zk.storage.tiered.epoch_lineage import Lineage, epochs_within, is_covered
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog


class CopyCandidate(NamedTuple):
    """A closed segment. ``end_offset``: the last one. ``leader_epochs``: (epoch, its first offset in the segment)."""

    base_offset: int
    end_offset: int
    leader_epochs: tuple[tuple[int, int], ...]


def segments_to_copy(
    log: RemotePartitionLog,
    lineage: Lineage,
    base_offsets: Sequence[int],
    log_start_offset: int,
    last_stable_offset: int,
) -> list[CopyCandidate]:
    """The segments to copy, oldest first.

    A segment must be closed, end below the last stable offset, and have an offset from the log start offset on that is
    not in the remote log. The first segment without leader epochs (a message format before 2) ends the selection.

    Args:
        base_offsets: of all local segments, ascending; the active segment is the last.
    """
    found: list[CopyCandidate] = []
    for base, following in zip(base_offsets, base_offsets[1:], strict=False):
        if following > last_stable_offset:
            break
        if following <= log_start_offset or is_covered(log, lineage, max(base, log_start_offset), following):
            continue
        epochs = epochs_within(lineage, base, following - 1)
        if not epochs:
            break
        found.append(CopyCandidate(base, following - 1, epochs))
    return found
