"""The control record that ends a producer's transaction on a partition, and the batch around it.

Key (big-endian): ``version int16, type int16``; value: ``version int16, coordinator epoch int32``. Source:
EndTransactionMarker.java, ControlRecordType.java@3.9. Tests: tests/storage/test_transaction_files.py.
"""

from struct import Struct
from typing import NamedTuple

from kafka_zk.storage.record_batch import CONTROL_FLAG, NO_SEQUENCE, TRANSACTIONAL_FLAG, assemble_batch, encode_record

ABORT_MARKER = 0
COMMIT_MARKER = 1
NO_TYPE = -1
_VERSION = 0
_KEY = Struct(">hh")
_VALUE = Struct(">hi")


class EndTransactionMarker(NamedTuple):
    """``type`` is NO_TYPE for a record without a key, ``coordinator_epoch`` -1 for one without a value."""

    type: int
    coordinator_epoch: int

    @property
    def ends_transaction(self) -> bool:
        return self.type in (ABORT_MARKER, COMMIT_MARKER)

    @property
    def is_abort(self) -> bool:
        return self.type == ABORT_MARKER


def parse_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """What a control record says; its type may be none of a transaction's."""
    marker_type = _KEY.unpack_from(key)[1] if key is not None and len(key) >= _KEY.size else NO_TYPE
    if value is None or len(value) < _VALUE.size:
        return EndTransactionMarker(marker_type, -1)
    return EndTransactionMarker(marker_type, _VALUE.unpack_from(value)[1])


def marker_batch(
    producer_id: int, producer_epoch: int, coordinator_epoch: int, *, is_commit: bool, timestamp_ms: int
) -> bytearray:
    """The batch that ends a transaction, for ``ReplicaManager.append_own``."""
    key = _KEY.pack(_VERSION, COMMIT_MARKER if is_commit else ABORT_MARKER)
    return assemble_batch(
        encode_record(0, 0, key, _VALUE.pack(_VERSION, coordinator_epoch)),
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
        record_count=1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer=(producer_id, producer_epoch, NO_SEQUENCE),
    )
