"""Reads the metadata log in a node's folder: the newest snapshot, and the segments after it. Changes nothing.

    __cluster_metadata-0/<end offset, 20 digits>-<epoch, 10 digits>.checkpoint    a snapshot
    __cluster_metadata-0/<base offset, 20 digits>.log                             a segment

Both are sequences of record batches, which are read one by one. An incomplete last batch does not count as damage,
because the node may be writing it, or was killed.

Source: Snapshots.java, KafkaMetadataLog.scala@3.9.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_zk.migration.metadata.replay import LARGEST_BATCH_BYTES, MetadataLog, Replay, UnreadableMetadata
from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.files.filenames import LOG_SUFFIX, parse_offset_file
from kafka_zk.storage.records.record_batch import HEADER_SIZE, check_crc, read_header
from kafka_zk.storage.segments.recovery import find_batch
from kafka_zk.storage.segments.segment_scan import BatchSpan, iter_spans

METADATA_LOG = "__cluster_metadata-0"
_CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


def read_folder(path: Path) -> MetadataLog:
    """``path``: a directory of ``log.dirs``, or its ``__cluster_metadata-0``. Raises UnreadableMetadata."""
    folder = path / METADATA_LOG if (path / METADATA_LOG).is_dir() else path
    try:
        return _replayed(folder)
    except OSError as error:
        raise UnreadableMetadata(f"{error.filename or folder}: {error.strerror or error}") from error


def _replayed(folder: Path) -> MetadataLog:
    names = sorted(os.listdir(folder))
    snapshots = [found for name in names if (found := _CHECKPOINT.fullmatch(name)) is not None]
    segments = [name for name in names if name.endswith(LOG_SUFFIX) and parse_offset_file(name) is not None]
    if not snapshots and not segments:
        raise UnreadableMetadata(f"{folder}: it contains no metadata log")
    replay = Replay()
    if snapshots:
        _read_snapshot(str(folder / snapshots[-1][0]), replay, int(snapshots[-1][1]), int(snapshots[-1][2]))
    for name, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and int(following.removesuffix(LOG_SUFFIX)) <= replay.end_offset:
            continue
        path = str(folder / name)
        with _in_file(path):
            for data in _batches(path, may_be_torn=following is None):
                replay.batch(data)
    return replay.result(str(folder))


def _read_snapshot(path: str, replay: Replay, end_offset: int, leader_epoch: int) -> None:
    with _in_file(path):
        for data in _batches(path, may_be_torn=False):
            replay.snapshot_batch(data)
        replay.snapshot_ended(end_offset, leader_epoch)


@contextmanager
def _in_file(path: str) -> Iterator[None]:
    try:
        yield
    except UnreadableMetadata as error:
        raise UnreadableMetadata(f"{path}: {error}") from error


def _batches(path: str, *, may_be_torn: bool) -> Iterator[bytes]:
    """Batches with a correct CRC. Raises UnreadableMetadata for damage before the last batch."""
    size_bytes = files.size_bytes(path)
    position = 0
    next_offset = 0
    with files.opened(path) as descriptor:
        try:
            for span in iter_spans(descriptor, 0, size_bytes):
                yield _checked(descriptor, span)
                position, next_offset = span.position + span.size_bytes, span.last_offset + 1
        except CorruptRecord as error:
            if not may_be_torn or _has_batch_after(path, position, next_offset):
                text = f"damaged at position {position}, after offset {next_offset - 1}: {error}"
                raise UnreadableMetadata(text) from error


def _checked(descriptor: int, span: BatchSpan) -> bytes:
    if span.magic != 2 or span.size_bytes > LARGEST_BATCH_BYTES:
        raise CorruptRecord(f"magic {span.magic} and {span.size_bytes} bytes are not a batch of a metadata log")
    data = files.pread(descriptor, span.size_bytes, span.position)
    if len(data) < max(span.size_bytes, HEADER_SIZE):
        raise CorruptRecord("the file has shrunk")
    check_crc(data, 0, read_header(data))
    return data


def _has_batch_after(path: str, position: int, next_offset: int) -> bool:
    with files.mapped(path) as view:
        return find_batch(view, position + 1, next_offset, next_offset) is not None
