"""Folders of compacted partitions, made from a seed, and their content after a cleaning.

A folder may contain the results of an earlier cleaning by ours, with delete horizons that have passed and others that
have not. New segments follow: batches of magic 0 to 2 in every codec, idempotent producers, transactions, of which some
end segments later, tombstones, records without a key. All timestamps are from the last hours, so that no broker
considers a producer expired.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.base.steps import run_to_end
from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.cleaner.cleaner import CleanerConfig
from kafka_zk.storage.files import files
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_loader import LogDependencies, load_log_steps
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, iter_entries, read_message_set, write_message_set
from kafka_zk.storage.records.record_batch import CONTROL_FLAG, TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG, read_header
from kafka_zk.storage.records.record_decoder import Record, decode_records
from kafka_zk.storage.segments.segment_scan import iter_spans
from tests.peers.logs.made_logs import Content, pack_batch
from tests.storage.done_here import clean_here
from tests.storage.helpers import remove_due

HOUR_MS = 3_600_000
SEGMENT_BYTES = 20_000
_NO_PRODUCER = (-1, -1, -1)
_TRANSACTIONAL_IDS = (4, 5)
#: Kafka takes no map below 1 MB.
CLEANER = CleanerConfig(dedupe_buffer_bytes=2 * 1024 * 1024)
_LEGACY_CODECS = (Compression.none, Compression.none, Compression.gzip, Compression.snappy, Compression.lz4)


class Folder(NamedTuple):
    """One made partition; ``config`` is the topic's, ``cleaned_offset`` None if it was never cleaned.

    ``last_values`` by key, None for a tombstone, of everything that was written.
    """

    tp: TopicPartition
    path: Path
    config: Mapping[str, str]
    cleaned_offset: int | None
    active_offset: int
    last_values: Mapping[bytes, bytes | None]
    has_legacy_sets: bool = False

    @property
    def log_config(self) -> LogConfig:
        return LogConfig(
            cleanup_policy=("compact",),
            segment_bytes=int(self.config["segment.bytes"]),
            index_interval_bytes=int(self.config["index.interval.bytes"]),
            delete_retention_ms=int(self.config["delete.retention.ms"]),
            file_delete_delay_ms=0,
        )


class SeenBatch(NamedTuple):
    """A batch, or an entry of a set of magic 0 or 1 with its inner messages. ``horizon`` is None if it has none.

    The base timestamp is omitted: if records were removed, Kafka writes the timestamp of the first remaining record,
    and our cleaner keeps the old base, to which the records' times are relative.
    """

    segment: int
    magic: int
    base_offset: int
    last_offset: int
    attributes: int
    newest_ms: int
    horizon: int | str | None
    producer: tuple[int, int, int]
    leader_epoch: int
    records: tuple[Record, ...]


def make_folder(seed: int, log_dir: Path) -> Folder:
    """A partition of one topic below ``log_dir``, named by the seed."""
    rng = random.Random(f"compaction {seed}")
    tp = TopicPartition(f"compacted-{seed}", 0)
    path = log_dir / f"{tp.topic}-0"
    path.mkdir(parents=True)
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "segment.bytes": str(SEGMENT_BYTES),
        "index.interval.bytes": str(rng.choice((0, 100, 4096))),
        "delete.retention.ms": str(rng.choice((0, 1_000, 24 * HOUR_MS))),
        "file.delete.delay.ms": "0",
    }
    writer = _Writer(rng, path)
    folder = Folder(tp, path, config, None, 0, writer.last_values, writer.magics != (2,))
    now_ms = int(time.time() * 1000)
    if rng.random() < 0.7:
        writer.write_segments(rng.randint(2, 5), now_ms - 6 * HOUR_MS)
        folder = folder._replace(cleaned_offset=clean(folder, now_ms - 5 * HOUR_MS))
        if rng.random() < 0.4:  # sometimes, a tombstone's horizon passes, and the tombstone is removed
            writer.write_segments(rng.randint(1, 3), now_ms - 4 * HOUR_MS)
            folder = folder._replace(cleaned_offset=clean(folder, now_ms - 3 * HOUR_MS))
    writer.write_segments(rng.randint(2, 6), now_ms - 2 * HOUR_MS)
    return folder._replace(active_offset=writer.active_offset)


def make_big_folder(log_dir: Path) -> Folder:
    """A partition that a throttled cleaner cleans for seconds: 8 segments of 700 KB, with every key at least twice."""
    tp = TopicPartition("compacted-slowly", 0)
    path = log_dir / f"{tp.topic}-0"
    path.mkdir(parents=True)
    rng = random.Random(4711)
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "segment.bytes": "700000",
        "index.interval.bytes": "4096",
        "delete.retention.ms": "86400000",
        "file.delete.delay.ms": "0",
    }
    last_values: dict[bytes, bytes | None] = {}
    offset = active_offset = 0
    now_ms = int(time.time() * 1000) - HOUR_MS
    for number in range(9):
        active_offset = offset
        data = bytearray()
        while len(data) < (690_000 if number < 8 else 1):
            key = b"key-%d" % rng.randrange(1500)
            last_values[key] = rng.randbytes(1000)
            data += pack_batch(offset, [(0, Content(now_ms + offset, key, last_values[key]))], 0)
            offset += 1
        (path / f"{active_offset:020}.log").write_bytes(data)
    return Folder(tp, path, config, None, active_offset, last_values)


def open_log(folder: Folder, now_ms: int) -> Log:
    """Open the log as a broker does after a kill or, if it contains sets that ours does not recover, after a clean
    stop.
    """
    log, dropped = run_to_end(
        load_log_steps(
            folder.tp,
            str(folder.path),
            folder.log_config,
            LogDependencies(FilePool()),
            now_ms,
            recovery_point=0,
            log_start_offset=0,
            clean_shutdown=folder.has_legacy_sets,
            is_contiguous=False,  # no recovery point distinguishes compaction from loss
        )
    )
    assert dropped is None
    log.producers.write_snapshot(str(folder.path), log.log_end_offset)  # the cleaner stops at the newest snapshot
    log.flush()
    log.cleaned_offset = folder.cleaned_offset
    return log


def clean(folder: Folder, now_ms: int) -> int | None:
    """Clean the folder with our cleaner; returns the offset up to which it is clean."""
    log = open_log(folder, now_ms)
    clean_here(log, CLEANER, now_ms)
    remove_due(log.segments, now_ms)
    log.close()
    return log.cleaned_offset


def copied(folder: Folder, log_dir: Path) -> Folder:
    """A copy with the same modification times, which determine when old tombstones are removed."""
    path = log_dir / folder.path.name
    shutil.copytree(folder.path, path)
    return folder._replace(path=path)


def survivors(path: Path, new_horizon_ms: int) -> list[SeenBatch]:
    """Everything in the ``.log`` files; horizons after ``new_horizon_ms`` depend on the clock and are only "new"."""
    seen: list[SeenBatch] = []
    for log in sorted(path.glob("*.log")):
        with files.opened(str(log)) as descriptor:
            for span in iter_spans(descriptor, 0, log.stat().st_size):
                data = files.pread(descriptor, span.size_bytes, span.position)
                seen.append(_seen(int(log.stem), data, span.magic, new_horizon_ms))
    return seen


def _seen(segment: int, data: bytes, magic: int, new_horizon_ms: int) -> SeenBatch:
    if magic < 2:
        (entry,) = iter_entries(data)
        inside = read_message_set(data)
        records = tuple(Record(each.offset, each.timestamp_ms, each.key, each.value, ()) for each in inside)
        first = records[0].offset
        return SeenBatch(
            segment, magic, first, entry.offset, entry.attributes, entry.timestamp_ms, None, _NO_PRODUCER, -1, records
        )
    header = read_header(data)
    horizon: int | str | None = None
    if header.has_delete_horizon:
        horizon = "new" if header.base_timestamp >= new_horizon_ms else header.base_timestamp
    return SeenBatch(
        segment,
        magic,
        header.base_offset,
        header.last_offset,
        header.attributes,
        header.max_timestamp,
        horizon,
        (header.producer_id, header.producer_epoch, header.base_sequence),
        header.partition_leader_epoch,
        tuple(decode_records(data)),
    )


class _Writer:
    """Appends segments to a folder that no broker has open."""

    def __init__(self, rng: random.Random, path: Path) -> None:
        self._rng = rng
        self._path = path
        self._offset = 0
        self._keys = rng.choice((1, 4, 30, 200))
        self.magics = rng.choice(((2,), (2,), (0, 1, 2), (1,), (0,)))
        self._sequences: dict[int, int] = {}
        self._is_active = False  # the segment being written will be the active one
        self._open: dict[int, dict[bytes, bytes | None]] = {}  # producer -> the last values of its transaction
        self.active_offset = 0
        self.last_values: dict[bytes, bytes | None] = {}

    def write_segments(self, count: int, first_ms: int) -> None:
        """Write ``count`` segments and a small active one of magic 2, with timestamps from ``first_ms`` on."""
        rng = self._rng
        self._now_ms = first_ms
        for number in range(count + 1):
            self.active_offset = self._offset
            size = rng.choice((500, SEGMENT_BYTES // 4, SEGMENT_BYTES)) if number < count else 1
            data = bytearray()
            while len(data) < size and len(data) < SEGMENT_BYTES - 4000:
                self._is_active = number == count
                data += self._batch(2 if self._is_active else rng.choice(self.magics))
            if rng.random() < 0.3:  # the last batch before the next segment has no records left
                data += self._batch(2, keyless_share=1)
            while self._open and self._is_active:
                data += self._marker()
            (self._path / f"{self.active_offset:020}.log").write_bytes(data)

    def _batch(self, magic: int, keyless_share: float = 0.02) -> bytes:
        rng = self._rng
        self._now_ms += rng.choice((0, 10, 1000))
        if self._open and rng.random() < 0.3:
            return self._marker()
        contents = [self._content(magic, keyless_share) for _ in range(rng.randint(1, rng.choice((1, 3, 15))))]
        base_offset, self._offset = self._offset, self._offset + len(contents)
        producer = self._producer(len(contents)) if magic == 2 else _NO_PRODUCER
        is_transactional = producer[0] in _TRANSACTIONAL_IDS
        values = self._open.setdefault(producer[0], {}) if is_transactional else self.last_values
        values.update({content.key: content.value for content in contents if content.key is not None})
        append_time = magic > 0 and rng.random() < 0.15
        if magic < 2:
            messages = [
                LegacyMessage(
                    base_offset + at, magic, each.timestamp_ms if magic else -1, append_time, each.key, each.value
                )
                for at, each in enumerate(contents)
            ]
            return write_message_set(messages, magic, rng.choice(_LEGACY_CODECS))
        options: dict[str, Any] = {
            "producer": producer,
            "attributes": (is_transactional and TRANSACTIONAL_FLAG) | (append_time and TIMESTAMP_TYPE_FLAG),
        }
        if append_time:
            options["newest_ms"] = self._now_ms
        codec = rng.choice(list(Compression))
        return pack_batch(base_offset, list(enumerate(contents)), len(contents) - 1, codec, **options)

    def _marker(self) -> bytes:
        """End the transaction of one of the producers, by commit or by abort."""
        producer_id = self._rng.choice(list(self._open))
        values = self._open.pop(producer_id)
        is_commit = self._rng.random() < 0.5
        self.last_values |= values if is_commit else {}
        marker = Content(self._now_ms, b"\0\0\0\1" if is_commit else b"\0\0\0\0", b"\0\0\0\0\0\0")
        base_offset, self._offset = self._offset, self._offset + 1
        attributes = TRANSACTIONAL_FLAG | CONTROL_FLAG
        return pack_batch(base_offset, [(0, marker)], 0, attributes=attributes, producer=(producer_id, 0, -1))

    def _producer(self, count: int) -> tuple[int, int, int]:
        transactional = () if self._is_active else _TRANSACTIONAL_IDS
        producer_id = self._rng.choice((-1, -1, 1, 2, 3, *transactional)) if self.magics == (2,) else -1
        if producer_id < 0:
            return _NO_PRODUCER
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        return (producer_id, 0, sequence)

    def _content(self, magic: int, keyless_share: float) -> Content:
        rng = self._rng
        key = None if rng.random() < keyless_share else b"key-%d" % rng.randrange(self._keys)
        value = None if rng.random() < 0.2 else rng.randbytes(rng.choice((0, 5, 70, 250)))
        headers = (("h", None), ("größe", b"x")) if magic == 2 and rng.random() < 0.2 else ()
        return Content(self._now_ms + rng.randint(-500, 500), key, value, headers)
