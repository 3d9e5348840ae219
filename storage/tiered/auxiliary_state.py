"""Determines where a follower begins if it is behind its leader's first local offset. Pure.

The leader responds to such a fetch with OFFSET_MOVED_TO_TIERED_STORAGE. The follower then takes the leader epochs and
the producers from the remote segment before the leader's first local offset, and fetches only later records.
Earlier records stay in remote storage only. The replica fetcher uses this module.
Source: TierStateMachine.java@3.9.
"""

from typing import NamedTuple

from kafka_zk.storage.tiered.epoch_lineage import Lineage
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata


class AuxiliaryStart(NamedTuple):
    """Begin an empty log at ``start_offset``, with the leader epochs before it in the segment's checkpoint.

    ``has_producers``: also load the segment's producer snapshot. Otherwise all producers are unknown, because the
    snapshot includes records that the leader does not have.
    """

    start_offset: int
    has_producers: bool


def epoch_before(local_start_offset: int, local_start_epoch: int, earlier_epoch: int, earlier_end_offset: int) -> int:
    """The epoch of the last offset before the leader's first local one.

    Args:
        earlier_epoch, earlier_end_offset: the leader's response to OffsetForLeaderEpoch for the epoch before
            ``local_start_epoch``; -1 and -1 if it knows no epochs.
    """
    is_of_earlier = earlier_epoch >= 0 and earlier_end_offset >= local_start_offset
    return earlier_epoch if is_of_earlier else local_start_epoch


def auxiliary_segment(log: RemotePartitionLog, epoch: int, local_start_offset: int) -> RemoteLogSegmentMetadata | None:
    """The segment that has the offset before ``local_start_offset``. ``epoch``: that offset's leader epoch (see
    ``epoch_before``). None if the metadata that were read so far do not contain the segment; call again later.
    """
    found = log.find(epoch, local_start_offset - 1)
    return None if found is None else found[0]


def auxiliary_start(
    segment: RemoteLogSegmentMetadata, local_start_offset: int, leader_epoch: int, leader_end_offset: int
) -> AuxiliaryStart:
    """Where the follower begins.

    After an unclean election, the end of the segment may belong to a lost lineage; Kafka's follower then skips offsets.
    ``leader_epoch`` and ``leader_end_offset`` reveal this. They are the leader's response to OffsetForLeaderEpoch for
    the last epoch of the segment.
    """
    start = segment.end_offset + 1
    if leader_epoch == segment.leader_epochs[-1][0] and leader_end_offset >= start:
        return AuxiliaryStart(start, True)
    return AuxiliaryStart(local_start_offset, False)


def epochs_before(checkpoint: Lineage, start_offset: int) -> list[tuple[int, int]]:
    """The leader epochs in the segment's checkpoint that begin before ``start_offset``, the follower's first offset."""
    return [(epoch, start) for epoch, start in checkpoint if start < start_offset]


def auxiliary_log_start(epochs: Lineage, leader_log_start_offset: int) -> int:
    """The follower's log start offset. ``epochs``: see ``epochs_before``.

    It may be after the leader's, because the leader that copied the segment may have deleted the offsets before the
    first of these epochs, and the present leader may not know this.
    """
    return max(leader_log_start_offset, epochs[0][1]) if epochs else leader_log_start_offset
