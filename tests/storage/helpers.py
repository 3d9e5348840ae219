"""Logs and batches for the storage tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from kafka_zk.base.steps import run_to_end
from kafka_zk.base.types import LogAppendInfo, TimestampOffset, TopicPartition
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_loader import Dropped, LogDependencies, create_log, load_log_steps
from kafka_zk.storage.records.log_validator import NotConformed, conform, validate_batch
from kafka_zk.storage.records.record_batch import Header, RecordBatchBuilder, iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.segments.log_segments import LogSegments
from tests.storage.done_here import search_here

T = TypeVar("T")
TP = TopicPartition("events", 0)
T0 = 1_700_000_000_000


class Clock:
    """A wall clock that only tests advance."""

    def __init__(self, now_ms: int = T0) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def present(value: T | None) -> T:
    """The value itself, which must not be None."""
    assert value is not None
    return value


def remove_due(segments: LogSegments, now_ms: int) -> int:
    """Delete the files of segments whose deletion delay has passed; returns the number of segments."""
    due = segments.take_due(now_ms)
    for remove in due:
        remove()
    return len(due)


def batch(
    count: int = 1,
    *,
    timestamp_ms: int = T0,
    value: bytes = b"v",
    key: bytes | None = None,
    compression: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    headers: Sequence[Header] = (),
    timestamps: Sequence[int] | None = None,
    **flags: bool,
) -> bytearray:
    """A batch of ``count`` equal records."""
    builder = RecordBatchBuilder(compression, producer_id, producer_epoch, base_sequence, **flags)
    for index in range(count):
        builder.append(timestamps[index] if timestamps else timestamp_ms, key, value, headers)
    return bytearray(builder.build())


def append(log: Log, data: bytearray, *, leader_epoch: int = 0, now_ms: int = T0) -> LogAppendInfo:
    """Append a batch as a broker appends one from a producer."""
    header = validate_batch(data)
    try:
        return log.append_as_leader(data, header, leader_epoch=leader_epoch, now_ms=now_ms)
    except NotConformed as needed:
        conformed = conform(data, header, needed.config, now_ms)
        assert not isinstance(conformed, bytes)
        return log.append_as_leader(
            conformed, validate_batch(conformed), leader_epoch=leader_epoch, now_ms=now_ms, conforms_to=needed.config
        )


def store(log: Log, data: bytearray, *, leader_epoch: int = 0, now_ms: int = T0) -> LogAppendInfo:
    """Append a batch without checking its records, as earlier versions of the broker did."""
    header = validate_batch(data)
    return log.append_as_leader(data, header, leader_epoch=leader_epoch, now_ms=now_ms, conforms_to=log.config)


def new_log(tmp_path: Path, pool: FilePool | None = None, **config: Any) -> Log:
    """An empty log in ``tmp_path``."""
    return create_log(TP, str(tmp_path / "events-0"), LogConfig(**config), LogDependencies(pool or FilePool()), T0)


def reopen(
    log: Log,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int | None = 0,
    is_contiguous: bool = True,
    now_ms: int = T0,
) -> tuple[Log, Dropped | None]:
    """Load the log's directory as the next start would; without ``clean`` as after a crash."""
    return run_to_end(
        load_log_steps(
            TP,
            str(log.directory),
            log.config,
            LogDependencies(FilePool()),
            now_ms,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean_shutdown=clean,
            is_contiguous=is_contiguous,
        )
    )


def offset_for_timestamp(log: Log, timestamp_ms: int) -> TimestampOffset | None:
    return search_here(log.timestamp_search(timestamp_ms))


def max_timestamp_offset(log: Log) -> TimestampOffset | None:
    return search_here(log.max_timestamp_search())


def read_offsets(log: Log, start: int | None = None, max_bytes: int = 1 << 20) -> list[int]:
    """The offsets of all records from ``start`` to the log's end, read as a consumer does."""
    return [offset for offset, _ in read_values(log, start, max_bytes)]


def read_values(log: Log, start: int | None = None, max_bytes: int = 1 << 20) -> list[tuple[int, bytes | None]]:
    """(offset, value) of all records from ``start`` to the log's end."""
    position = log.log_start_offset if start is None else start
    found: list[tuple[int, bytes | None]] = []
    while True:
        read = log.read(position, max_bytes)
        if read.slice is None:
            return found
        data = read.slice.read()
        assert len(data) == read.slice.size_bytes
        for at, _ in iter_batches(data):
            found += [(record.offset, record.value) for record in decode_records(data, at) if record.offset >= position]
        position = read.next_offset
