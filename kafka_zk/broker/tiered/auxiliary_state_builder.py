"""Reads the state with which a follower begins from remote storage. Source: TierStateMachine.java@3.9."""

from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.replica.remote_state import Leader, RemoteState, RemoteStateUnavailable
from kafka_zk.broker.tiered.broker_topic_stats import RequestRates
from kafka_zk.broker.tiered.remote_log_metadata_manager import MetadataUnavailable, RemoteLogMetadataManager
from kafka_zk.broker.tiered.storage_calls import StorageCalls
from kafka_zk.storage.files.checkpoints import MAX_INT, MAX_OFFSET, parse_checkpoint, parse_number
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.log.producer_snapshot import decode_snapshot
from kafka_zk.storage.tiered.auxiliary_state import auxiliary_segment, auxiliary_start, epoch_before, epochs_before
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from kafka_zk.storage.tiered.segment_storage import SegmentPart, SegmentStorage

READ_TIMEOUT_S = 60.0
_MOST_BYTES = 64 << 20


class AuxiliaryStateBuilder:
    """Implements ``RemoteStateReader``."""

    def __init__(self, metadata: RemoteLogMetadataManager, storage: SegmentStorage, calls: StorageCalls) -> None:
        self._metadata = metadata
        self._storage = storage
        self._calls = calls
        self.rates = RequestRates()

    async def read(self, partition: Partition, leader_epoch: int, leader: Leader) -> RemoteState:
        return await self.rates.counted(self._read(partition, leader_epoch, leader))

    async def _read(self, partition: Partition, leader_epoch: int, leader: Leader) -> RemoteState:
        tp = partition.tp
        local_start, local_epoch = await leader.earliest_local(tp, leader_epoch)
        earlier = await leader.epoch_end(tp, leader_epoch, local_epoch - 1) if local_epoch > 0 else (-1, -1)
        epoch = epoch_before(local_start, local_epoch, *earlier)
        try:
            remote = await self._metadata.complete_log(TopicIdPartition(partition.topic_id, *tp))
            segment = auxiliary_segment(remote, epoch, local_start)
            if segment is None:
                raise RemoteStateUnavailable(f"no remote segment has offset {local_start - 1} of epoch {epoch}")
            ended = await leader.epoch_end(tp, leader_epoch, segment.leader_epochs[-1][0])
            start = auxiliary_start(segment, local_start, *ended)
            epochs, snapshot = await self._calls.call(lambda: self._parts(segment), READ_TIMEOUT_S)
        except (MetadataUnavailable, StorageError) as error:
            raise RemoteStateUnavailable(str(error)) from error
        start_offset = start.start_offset
        return RemoteState(start_offset, epochs_before(epochs, start_offset), snapshot if start.has_producers else None)

    def _parts(self, segment: RemoteLogSegmentMetadata) -> tuple[list[tuple[int, int]], bytes]:
        """Read the leader epochs and the producer snapshot of a segment, on a thread. Raises: StorageError, also if
        they are damaged."""
        data = self._storage.read_part(segment, SegmentPart.LEADER_EPOCHS, _MOST_BYTES)
        name = f"the leader epochs of segment {segment.start_offset}"
        rows = [
            (parse_number(epoch, MAX_INT, name), parse_number(start, MAX_OFFSET, name))
            for epoch, start in parse_checkpoint(data, 2, name)
        ]
        snapshot = self._storage.read_part(segment, SegmentPart.PRODUCER_SNAPSHOT, _MOST_BYTES)
        decode_snapshot(snapshot)
        return rows, snapshot
