"""Finds the batches of aborted transactions, for read_committed consumers.

A fetch response lists the aborted transactions among its records. Between the first offset of an aborted transaction
and its abort marker, all transactional batches of its producer are aborted. The broker does not send records of open
transactions (KIP-98).

Pure. Source: CompletedFetch.java@3.9.
"""

import struct
from collections.abc import Iterator, Sequence

from kafka_zk.protocol.fetch import AbortedTransaction
from kafka_zk.storage.files.errors import InvalidRecord
from kafka_zk.storage.records.record_batch import BatchHeader, Buffer, iter_batches
from kafka_zk.storage.records.record_decoder import decode_records

_CONTROL_KEY = struct.Struct(">hh")  # version, type
_ABORT = 0


def batches_with_aborted(
    data: Buffer, aborted: Sequence[AbortedTransaction]
) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Yield position and header of every whole batch, and whether its transaction was aborted.

    Raises: CorruptRecord or InvalidRecord for an invalid batch or an unreadable marker.
    """
    upcoming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    producers: set[int] = set()
    for position, header in iter_batches(data):
        while upcoming and upcoming[-1].first_offset <= header.last_offset:
            producers.add(upcoming.pop().producer_id)
        is_of_producer = header.producer_id in producers
        if is_of_producer and header.is_control and _is_abort(data, position):
            producers.discard(header.producer_id)
        yield position, header, is_of_producer and header.is_transactional and not header.is_control


def _is_abort(data: Buffer, position: int) -> bool:
    marker = next(decode_records(data, position), None)
    if marker is None:  # compaction keeps a producer's last batch, even if it removes the marker in that batch
        return False
    if marker.key is None or len(marker.key) < _CONTROL_KEY.size:
        raise InvalidRecord(f"the control record at offset {marker.offset} has no type")
    return bool(_CONTROL_KEY.unpack_from(marker.key)[1] == _ABORT)
