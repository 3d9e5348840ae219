"""Bringing the producer state up to date from batches that are in the log already.

Tests: tests/storage/test_producer_state.py.
"""

from collections.abc import Iterable
from contextlib import suppress

from kafka_zk.storage.errors import CorruptRecord
from kafka_zk.storage.producer_state import ProducerState, parse_marker
from kafka_zk.storage.record_batch import CONTROL_FLAG, TIMESTAMP_TYPE_FLAG, BatchHeader, check_crc
from kafka_zk.storage.record_stream import batch_chunks, key_and_value, walk
from kafka_zk.storage.segment import Segment


def apply_marker(state: ProducerState, batch: bytes | bytearray | memoryview, header: BatchHeader) -> None:
    """Apply the transaction marker in a control batch; an empty one (compacted away) changes nothing."""
    for data, _, timestamp_delta, _, body, end in walk(batch_chunks(batch, header), header.record_count):
        key_start, key_size, value_start, value_size = key_and_value(data, body, end)
        key = bytes(data[key_start : key_start + key_size]) if key_size >= 0 else None
        value = bytes(data[value_start : value_start + value_size]) if value_size >= 0 else None
        _, coordinator_epoch = parse_marker(key, value)
        append_time = header.attributes & TIMESTAMP_TYPE_FLAG
        timestamp_ms = header.max_timestamp if append_time else header.base_timestamp + timestamp_delta
        state.end_transaction(header, coordinator_epoch, timestamp_ms)
        return


def replay(state: ProducerState, segments: Iterable[Segment], start_offset: int, end_offset: int) -> None:
    """Feed the headers of all batches in ``[start_offset, end_offset)``; only markers are read whole."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            return
        for span in segment.sound_spans(segment.position_for(start_offset)):
            if span.last_offset < start_offset or span.magic != 2:
                continue
            if span.base_offset >= end_offset:
                return
            header = segment.header_at(span.position)
            if header.producer_id < 0:
                continue
            if header.attributes & CONTROL_FLAG:
                batch = segment.read(span.position, span.size_bytes)
                with suppress(CorruptRecord):  # durable and damaged since: its readers find out, the log opens
                    check_crc(batch, 0, header)
                    apply_marker(state, batch, header)
            else:
                state.update(header, header.base_offset, header.max_timestamp)
