"""A log directory's files as rows for printing, with checks, like Kafka's DumpLogSegments.

Rows are flat dicts with Kafka's field names. A problem is a row with the key ``problem``, after which the dump
continues if it can.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kafka_zk.storage.files import checkpoints, files
from kafka_zk.storage.files.errors import CorruptCheckpoint, CorruptRecord, CorruptSnapshot, StorageError
from kafka_zk.storage.files.filenames import LOG_SUFFIX, parse_offset_file
from kafka_zk.storage.files.files import read_file
from kafka_zk.storage.log.producer_snapshot import decode_snapshot
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.end_transaction_marker import ABORT_MARKER, COMMIT_MARKER, parse_marker
from kafka_zk.storage.records.legacy_message_set import LegacyEntry, iter_entries
from kafka_zk.storage.records.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    MAX_CODEC,
    BatchHeader,
    check_crc,
    read_header,
)
from kafka_zk.storage.records.record_decoder import Record, decode_records
from kafka_zk.storage.segments.offset_index import parse_offset_index
from kafka_zk.storage.segments.segment_scan import BatchSpan, iter_spans
from kafka_zk.storage.segments.time_index import iter_time_index, valid_time_index
from kafka_zk.storage.segments.transaction_index import decode_transaction_index, transaction_index_problem

Row = dict[str, Any]
_MARKERS = {ABORT_MARKER: "ABORT", COMMIT_MARKER: "COMMIT"}


def dump_file(path: str | os.PathLike[str], *, records: bool = False, verify: bool = False) -> Iterator[Row]:
    """Yield the rows of a log, index, snapshot or checkpoint file.

    Args:
        records: also yield each batch's records (log files).
        verify: compare an index with its log.
    Raises: ValueError for an unknown file name; OSError.
    """
    text_path = os.fspath(path)
    directory, name = os.path.split(text_path)
    parsed = parse_offset_file(name)
    if parsed is None:
        if not name.endswith("-checkpoint"):
            raise ValueError(f"{name}: its name is neither an offset nor that of a checkpoint")
        yield from _dump_checkpoint(text_path)
        return
    base_offset, suffix = parsed
    log_path = os.path.join(directory, name.removesuffix(suffix) + LOG_SUFFIX)
    match suffix:
        case ".log":
            yield from dump_log(text_path, records=records)
        case ".index":
            yield from dump_offset_index(text_path, base_offset, log_path if verify else None)
        case ".timeindex":
            yield from dump_time_index(text_path, base_offset, log_path if verify else None)
        case ".txnindex":
            yield from dump_transaction_index(text_path, base_offset)
        case ".snapshot":
            yield from dump_snapshot(text_path)
        case _:
            raise ValueError(f"{name}: unknown kind of file")


def dump_log(path: str, *, records: bool = False) -> Iterator[Row]:
    """One row per batch: header, position, size, and whether the CRC is valid.

    A damaged header ends the dump. Its ``problem`` row has the position and the number of remaining bytes.
    """
    size_bytes = files.size_bytes(path)
    position = 0
    next_offset = -1
    with files.opened(path) as descriptor:
        try:
            for span in iter_spans(descriptor, 0, size_bytes):
                data = files.pread(descriptor, span.size_bytes, span.position)
                yield from _dump_batch(data, span, records)
                if span.base_offset < next_offset:
                    yield _problem(span.position, f"offset {span.base_offset} after {next_offset - 1}")
                next_offset = span.last_offset + 1
                position = span.position + span.size_bytes
        except CorruptRecord as error:
            yield _problem(position, str(error)) | {"trailingBytes": size_bytes - position}


def _problem(position: int, text: str) -> Row:
    return {"problem": text, "position": position}


def _dump_batch(data: bytes, span: BatchSpan, records: bool) -> Iterator[Row]:
    if span.magic < 2:
        yield from _dump_legacy(data, span)
        return
    header = read_header(data)
    try:
        check_crc(data, 0, header)
        valid = True
    except CorruptRecord:
        valid = False
    yield batch_row(header, span.position, valid)
    if not valid:
        yield _problem(span.position, f"the CRC of the batch at offset {header.base_offset} does not match")
    if not records:
        return
    try:
        for record in decode_records(data):
            yield record_row(record, header)
    except StorageError as error:
        yield _problem(span.position, str(error))


def batch_row(header: BatchHeader, position: int, crc_valid: bool) -> Row:
    """A magic-2 batch as a row."""
    codec = header.attributes & CODEC_MASK
    return {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.base_timestamp if header.has_delete_horizon else None,
        "position": position,
        "timestampType": header.timestamp_type,
        "baseTimestamp": None if header.has_delete_horizon else header.base_timestamp,
        "maxTimestamp": header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": _codec_name(codec),
        "attributes": header.attributes,
        "crc": header.crc,
        "isvalid": crc_valid,
    }


def _codec_name(codec: int) -> str:
    return Compression(codec).name if codec <= MAX_CODEC else str(codec)


def record_row(record: Record, header: BatchHeader) -> Row:
    """One record; key and value as bytes."""
    marker = parse_marker(record.key, record.value) if header.is_control else None
    return {
        "offset": record.offset,
        "timestampType": header.timestamp_type,
        "timestamp": record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "isTombstone": (record.key is not None and record.value is None and not header.is_control) or None,
        "sequence": -1 if header.base_sequence < 0 else header.base_sequence + record.offset - header.base_offset,
        "headerKeys": [name for name, _ in record.headers],
        "endTxnMarker": None if marker is None else _MARKERS.get(marker.type),
        "coordinatorEpoch": None if marker is None else marker.coordinator_epoch,
        "key": record.key,
        "payload": record.value,
        "headers": record.headers,
    }


def _dump_legacy(data: bytes, span: BatchSpan) -> Iterator[Row]:
    try:
        entry: LegacyEntry = next(iter_entries(data))
    except CorruptRecord as error:
        yield _problem(span.position, str(error))
        return
    yield {
        "lastOffset": entry.offset,
        "position": span.position,
        "timestampType": "LogAppendTime" if entry.log_append_time else "CreateTime",
        "maxTimestamp": entry.timestamp_ms,
        "size": span.size_bytes,
        "magic": entry.magic,
        "compresscodec": _codec_name(entry.codec),
        "isvalid": True,
    }


def dump_offset_index(path: str, base_offset: int, log_path: str | None = None) -> Iterator[Row]:
    """One row per entry, compared with its batch if ``log_path`` is given."""
    data = read_file(path) or b""
    if len(data) % 8:
        yield _problem(len(data), "the size is not a multiple of 8")
    previous = -1
    for word in parse_offset_index(data):
        offset, position = base_offset + (word >> 32), word & 0xFFFFFFFF
        yield {"offset": offset, "position": position}
        if word <= previous:
            yield _problem(position, f"the entry for offset {offset} does not ascend")
        previous = word
        if log_path is not None and (text := _index_mismatch(log_path, offset, position)):
            yield _problem(position, text)


def _index_mismatch(log_path: str, offset: int, position: int) -> str | None:
    with files.opened(log_path) as descriptor:
        data = files.pread(descriptor, HEADER_SIZE, position)
        if len(data) < 17:
            return f"offset {offset} is indexed at position {position}, where the log has ended"
        try:
            span = next(iter_spans(descriptor, position, files.size_bytes(log_path)), None)
        except CorruptRecord as error:
            return f"offset {offset}: {error}"
        if span is None or span.last_offset != offset:
            found = "no complete batch" if span is None else f"last offset {span.last_offset}"
            return f"offset {offset} is indexed at position {position}, where there is {found}"
    return None


def dump_time_index(path: str, base_offset: int, log_path: str | None = None) -> Iterator[Row]:
    """One row per entry, compared with the log's largest timestamp if ``log_path`` is given."""
    data = read_file(path) or b""
    if len(data) % 12:
        yield _problem(len(data), "the size is not a multiple of 12")
    newest = _newest_by_offset(log_path) if log_path is not None else None
    previous_ms, previous_offset = -1, -1
    found_ms = -1
    for timestamp_ms, offset in iter_time_index(valid_time_index(data), base_offset):
        yield {"timestamp": timestamp_ms, "offset": offset}
        if timestamp_ms <= previous_ms or offset < previous_offset:
            yield _problem(0, f"the entry {timestamp_ms} → {offset} does not ascend")
        previous_ms, previous_offset = timestamp_ms, offset
        if newest is None:
            continue
        last_offset = -1
        while last_offset < offset:
            last_offset, batch_ms = next(newest, (1 << 63, -1))
            found_ms = max(found_ms, batch_ms)
        if last_offset != offset or found_ms != timestamp_ms:
            yield _problem(0, f"the entry {timestamp_ms} → {offset} does not fit the log, whose maximum is {found_ms}")


def _newest_by_offset(log_path: str) -> Iterator[tuple[int, int]]:
    """(last offset, max timestamp) of every magic-2 batch of a log file."""
    size_bytes = files.size_bytes(log_path)
    with files.opened(log_path) as descriptor, suppress(CorruptRecord):  # the log's own dump reports it
        for span in iter_spans(descriptor, 0, size_bytes):
            if span.magic == 2:
                header = read_header(files.pread(descriptor, HEADER_SIZE, span.position))
                yield span.last_offset, header.max_timestamp


def dump_transaction_index(path: str, base_offset: int) -> Iterator[Row]:
    """One row per aborted transaction."""
    data = read_file(path) or b""
    problem = transaction_index_problem(data, base_offset)
    if problem is not None:
        yield _problem(0, f"the transaction index {problem}")
    for entry in decode_transaction_index(data):
        yield {
            "version": entry.version,
            "producerId": entry.producer_id,
            "firstOffset": entry.first_offset,
            "lastOffset": entry.last_offset,
            "lastStableOffset": entry.last_stable_offset,
        }


def dump_snapshot(path: str) -> Iterator[Row]:
    """One row per producer."""
    try:
        entries = decode_snapshot(read_file(path) or b"")
    except CorruptSnapshot as error:
        yield _problem(0, str(error))
        return
    for entry in entries:
        first_sequence, last_sequence, first_offset, last_offset, _ = entry.last_batch or (-1,) * 5
        yield {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.current_txn_first_offset if entry.current_txn_first_offset >= 0 else None,
            "lastTimestamp": entry.last_timestamp_ms,
            "firstSequence": first_sequence,
            "lastSequence": last_sequence,
            "lastOffset": last_offset,
            "offsetDelta": last_offset - first_offset,
        }


def _dump_checkpoint(path: str) -> Iterator[Row]:
    epochs = os.path.basename(path).startswith("leader-epoch")
    try:
        rows = checkpoints.parse_checkpoint(read_file(path) or b"", 2 if epochs else 3, path)
        for row in rows:
            *topic, number, offset = row
            first = checkpoints.parse_number(number, checkpoints.MAX_INT, path)
            second = checkpoints.parse_number(offset, checkpoints.MAX_OFFSET, path)
            if epochs:
                yield {"leaderEpoch": first, "startOffset": second}
            else:
                yield {"topic": topic[0], "partition": first, "offset": second}
    except CorruptCheckpoint as error:
        yield _problem(0, str(error))
