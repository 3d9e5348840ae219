"""Timestamps that exceed 64 bits or that Kafka refuses: a batch's base timestamp and deltas can add up to any value."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from kafka_zk.base.types import TimestampOffset
from kafka_zk.storage.files.errors import InvalidTimestamp
from kafka_zk.storage.records.conversion import up_convert
from kafka_zk.storage.records.legacy_message_set import encode_message, read_message_set
from kafka_zk.storage.records.log_validator import validate_batch
from tests.storage.done_here import down_convert
from tests.storage.helpers import T0, append, batch, new_log, offset_for_timestamp, read_offsets

_TIMESTAMPS = struct.Struct(">qq")
LAST = 2**63 - 1


def overflowing() -> bytearray:
    """Two records: the first has the largest timestamp of 64 bits, the second is five milliseconds later."""
    data = batch(2, timestamps=[0, 5])
    _TIMESTAMPS.pack_into(data, 27, LAST, LAST)
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return data


def test_a_lookup_finds_what_java_would_find(tmp_path: Path) -> None:
    """The second record's timestamp wraps around into the past, and must not be returned."""
    log = new_log(tmp_path)
    append(log, overflowing())
    assert offset_for_timestamp(log, T0) == TimestampOffset(LAST, 0, 0)
    log.increment_log_start_offset(1)
    assert offset_for_timestamp(log, T0) is None


def test_old_consumers_read_on() -> None:
    """If conversion failed, an old consumer would get the same exception at every retry."""
    (first, second) = read_message_set(down_convert(bytes(overflowing()), 1))
    assert (first.timestamp_ms, second.timestamp_ms) == (LAST, -(2**63) + 4)


def test_a_topic_with_its_own_codec_refuses_them(tmp_path: Path) -> None:
    log = new_log(tmp_path, compression_type="gzip")
    with pytest.raises(InvalidTimestamp):
        append(log, overflowing())
    append(log, batch(2, timestamps=[-1, T0]))
    assert read_offsets(log) == [0, 1]


def test_old_producers_may_not_go_below_none() -> None:
    """-1 means no timestamp; a smaller value would be converted to another one."""
    with pytest.raises(InvalidTimestamp):
        up_convert(encode_message(0, 1, 0, -(2**63), None, b"a") + encode_message(1, 1, 0, LAST, None, b"b"))
    validate_batch(up_convert(encode_message(0, 1, 0, -1, None, b"a")))
