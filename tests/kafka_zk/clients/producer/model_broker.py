"""A model of a broker's idempotence: logs, producer states, and responses, on plain values."""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.producer.batch import increment_sequence
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.produce import PartitionResult
from kafka_zk.storage.records.record_batch import check_crc, read_header
from kafka_zk.storage.records.record_decoder import decode_records

_REMEMBERED = 5


class _Appended(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int


class ModelBroker:
    """Logs of partitions and the state of their producers. Source: ProducerAppendInfo.java@3.9."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, list[bytes | None]] = {}
        self._producers: dict[tuple[TopicPartition, int], tuple[int, list[_Appended]]] = {}
        self.batch_bytes_max = 1 << 20

    def forget_producers(self) -> None:
        """Forget all producers, as after a retention that removed all their records."""
        self._producers.clear()

    def produce(self, tp: TopicPartition, data: bytes) -> PartitionResult:
        header = read_header(data)
        check_crc(data, 0, header)
        if len(data) > self.batch_bytes_max:
            return PartitionResult(tp.partition, ErrorCode.MESSAGE_TOO_LARGE)
        log = self.logs.setdefault(tp, [])
        if header.producer_id >= 0:
            epoch, remembered = self._producers.get((tp, header.producer_id), (-1, []))
            if header.producer_epoch < epoch:
                return PartitionResult(tp.partition, ErrorCode.INVALID_PRODUCER_EPOCH)
            if header.producer_epoch > epoch:
                remembered = []
                if header.base_sequence != 0 and epoch != -1:
                    return PartitionResult(tp.partition, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            for known in remembered:
                if known[:2] == (header.base_sequence, header.last_sequence):
                    return PartitionResult(tp.partition, ErrorCode.NONE, known.base_offset, log_start_offset=0)
            if remembered and header.base_sequence != increment_sequence(remembered[-1].last_sequence, 1):
                return PartitionResult(tp.partition, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            appended = _Appended(header.base_sequence, header.last_sequence, len(log))
            state = (header.producer_epoch, [*remembered, appended][-_REMEMBERED:])
            self._producers[tp, header.producer_id] = state
        base_offset = len(log)
        log += [record.value for record in decode_records(data)]
        return PartitionResult(tp.partition, ErrorCode.NONE, base_offset, log_start_offset=0)
