"""Reads the batches in the logs of replicas, for the judges of replication."""

import hashlib

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.sim.machine.disk import SimDisk
from kafka_zk.storage.files import files
from kafka_zk.storage.records.record_batch import BatchHeader, iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from tests.sim.replica_judges import KeyedLog, LoggedBatch, ReplicaLog

_LARGE = 64 * 1024 * 1024
_Parsed = list[tuple[int, LoggedBatch]]
"""Batches, and the end position of each in the bytes that were read."""


class ReplicaLogs:
    """Reads logs from the simulated disk. Batches that were read before are not parsed again."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self._known: dict[tuple[int, TopicPartition, int], tuple[bytes, _Parsed]] = {}

    def read(self, broker_id: int, partition: Partition) -> ReplicaLog:
        """All batches of a replica on its disk."""
        log = partition.log
        assert log is not None
        batches: list[LoggedBatch] = []
        offset = durable_end = start = log.local_log_start_offset
        is_durable = True
        while offset < log.log_end_offset:
            found = log.read(offset, _LARGE).slice
            if found is None:
                break
            found.retain()
            data = files.pread(found.fileno(), found.size_bytes, found.position)
            durable_bytes = self._disk.durable_bytes(found.fileno()) - found.position
            found.release()
            for end, batch in self._parsed((broker_id, partition.tp, offset), data):
                batches.append(batch)
                offset = batch.last_offset + 1
                is_durable = is_durable and end <= durable_bytes
                durable_end = offset if is_durable else durable_end
        return ReplicaLog(broker_id, log.high_watermark, start, batches, durable_end)

    def read_keys(self, broker_id: int, partition: Partition) -> KeyedLog:
        """The keys of all records of a replica."""
        log = partition.log
        assert log is not None
        found: list[tuple[int, bytes]] = []
        offset = log.log_start_offset
        while (part := log.read(offset, _LARGE).slice) is not None:
            part.retain()
            data = files.pread(part.fileno(), part.size_bytes, part.position)
            part.release()
            for position, header in iter_batches(memoryview(data)):
                found += [(record.offset, record.key or b"") for record in decode_records(data, position)]
                offset = header.last_offset + 1
        return KeyedLog(broker_id, log.high_watermark, found)

    def _parsed(self, place: tuple[int, TopicPartition, int], data: bytes) -> _Parsed:
        before, parsed = self._known.get(place, (b"", []))
        if not data.startswith(before):
            before, parsed = b"", []
        start = len(before)
        parsed = parsed + [
            _logged(header, data, start + position) for position, header in iter_batches(memoryview(data)[start:])
        ]
        self._known[place] = data, parsed
        return parsed


def _logged(header: BatchHeader, data: bytes, position: int) -> tuple[int, LoggedBatch]:
    end = position + header.size_bytes
    digest = hashlib.sha256(data[position:end]).hexdigest()[:12]
    return end, LoggedBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, digest)
