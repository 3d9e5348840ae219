"""Work on single batches in a helper process, which does not block the broker.

The helper reads the segment by descriptor, even after retention deletes the segment.
Tests: tests/storage/files/test_helper_process.py.
"""

from pickle import PickleBuffer
from typing import NamedTuple

from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.files.helper_process import Report
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.records.conversion import down_convert_batch, up_convert
from kafka_zk.storage.records.legacy_message_set import whole_size_bytes
from kafka_zk.storage.records.log_validator import conform
from kafka_zk.storage.records.record_batch import Buffer, read_header
from kafka_zk.storage.segments.segment_scan import read_range
from kafka_zk.storage.segments.timestamp_search import SearchWork

AT_ONCE_BYTES = 64 * 1024
AT_ONCE_RECORDS = 1_000
"""Maximum number of records handled in one reactor turn; they take a few milliseconds."""


class ConformWork(NamedTuple):
    """Runs ``log_validator.conform``. Returns the batch to append, or None if unchanged."""

    batch: Buffer | PickleBuffer
    config: LogConfig
    now_ms: int

    def run(self, report: Report) -> PickleBuffer | None:
        batch = bytes(self.batch)
        conformed = conform(batch, read_header(batch), self.config, self.now_ms)
        return None if conformed is batch else PickleBuffer(conformed)


class UpConvertWork(NamedTuple):
    """Runs ``conversion.up_convert`` on complete messages; returns empty bytes if there are none."""

    message_set: Buffer | PickleBuffer
    max_size_bytes: int | None

    def run(self, report: Report) -> PickleBuffer:
        message_set = bytes(self.message_set)
        size_bytes = whole_size_bytes(message_set)
        if not size_bytes:
            return PickleBuffer(b"")
        return PickleBuffer(up_convert(message_set[:size_bytes], max_size_bytes=self.max_size_bytes))


class DownConvertWork(NamedTuple):
    """Runs ``conversion.down_convert_batch`` on a batch in a file."""

    position: int
    size_bytes: int
    magic: int
    first_offset: int

    def run_on(self, descriptor: int) -> PickleBuffer:
        batch = read_range(descriptor, self.position, self.size_bytes)
        if len(batch) < self.size_bytes:
            raise CorruptRecord(f"{len(batch)} of {self.size_bytes} bytes are left of the batch")
        converted = down_convert_batch(batch, read_header(batch), self.magic, first_offset=self.first_offset)
        return PickleBuffer(converted)


BatchWork = ConformWork | UpConvertWork
FileWork = DownConvertWork | SearchWork
