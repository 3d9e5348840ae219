"""How a log corrects the timestamps in a producer's header, and which records it names when it refuses a batch."""

from pathlib import Path
from struct import Struct
from typing import Any

import pytest

from kafka_zk.base.types import TimestampOffset
from kafka_zk.storage.files.errors import InvalidRecord, InvalidTimestamp
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.compression import Compression, compress
from kafka_zk.storage.records.record_batch import (
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    RecordBatchBuilder,
    assemble_batch,
    check_crc,
    encode_record,
    iter_batches,
    set_crc,
)
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.segments.retention import count_deletable
from tests.storage.helpers import T0, append, batch, max_timestamp_offset, new_log, offset_for_timestamp, present

_LONG = Struct(">q")
_SHORT = Struct(">h")
_MAX_TIMESTAMP = 35
_ATTRIBUTES = 21
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
TOPICS: dict[str, dict[str, Any]] = {
    "plain": {},
    "compacted": {"cleanup_policy": ("compact",)},
    "own codec": {"compression_type": "lz4"},
}


def claiming(max_timestamp_ms: int, count: int = 2, **content: Any) -> bytearray:
    """Records of T0 and T0 + 1000 in a batch whose header claims another largest timestamp."""
    timestamps = content.pop("timestamps", [T0, *[T0 + 1000] * (count - 1)])
    data = batch(count, timestamps=timestamps, key=b"k", **content)
    _LONG.pack_into(data, _MAX_TIMESTAMP, max_timestamp_ms)
    set_crc(data)
    return data


def with_append_time_bit(data: bytearray) -> bytearray:
    (attributes,) = _SHORT.unpack_from(data, _ATTRIBUTES)
    _SHORT.pack_into(data, _ATTRIBUTES, attributes | TIMESTAMP_TYPE_FLAG)
    set_crc(data)
    return data


def stored(log: Log) -> list[BatchHeader]:
    """The headers in the log, after checking that each checksum is valid."""
    data = present(log.read(0, 1 << 20).slice).read()
    headers = []
    for position, header in iter_batches(data):
        check_crc(data, position, header)
        headers.append(header)
    return headers


@pytest.mark.parametrize("claimed_ms", [-1, 0, T0 - 1, T0 + 5, T0 + 10**9])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS.keys())
def test_the_largest_timestamp_is_that_of_the_records(
    tmp_path: Path, topic: dict[str, Any], codec: str, claimed_ms: int
) -> None:
    """sarama before 1.45 writes -1 to every header, and timestamp lookups, retention and producer expiry use this
    field."""
    log = new_log(tmp_path, **topic)
    append(log, claiming(claimed_ms, compression=codec))
    assert [header.max_timestamp for header in stored(log)] == [T0 + 1000]
    assert offset_for_timestamp(log, T0 + 1) == TimestampOffset(T0 + 1000, 1, 0)
    assert max_timestamp_offset(log) == TimestampOffset(T0 + 1000, 1, 0)
    assert log.segments.active.largest_timestamp_ms() == T0 + 1000


@pytest.mark.parametrize("count", [2, 1500])
def test_so_it_is_in_a_batch_of_many_records(tmp_path: Path, count: int) -> None:
    """Another code path checks such a batch."""
    log = new_log(tmp_path)
    append(log, claiming(-1, count))
    assert offset_for_timestamp(log, T0 + 1) == TimestampOffset(T0 + 1000, 1, 0)


def test_a_producer_with_such_headers_is_remembered(tmp_path: Path) -> None:
    """If the producer were forgotten, a retry after the next expiry check would be written twice."""
    log = new_log(tmp_path)
    for claimed_ms in (-1, 0):
        data = claiming(claimed_ms, producer_id=7, producer_epoch=0, base_sequence=claimed_ms * 2 + 2)
        append(log, bytearray(data))
        log.producers.remove_expired(T0 + 2000)
        assert append(log, data).duplicate


def test_retention_goes_by_the_records(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=200, retention_ms=5000)
    for claimed_ms in (0, -1, T0 + 10**9):
        append(log, claiming(claimed_ms, value=b"v" * 50))
    kept = count_deletable(log.segments[:], log.config, 0, 6, 6, T0 + 6000)
    expired = count_deletable(log.segments[:], log.config, 0, 6, 6, T0 + 6001)
    assert (kept, expired) == (0, 3)


def test_records_without_timestamps_keep_none(tmp_path: Path) -> None:
    """-1 and all smaller values mean no timestamp, as in Kafka."""
    log = new_log(tmp_path)
    for timestamp_ms in (-1, -5000):
        append(log, claiming(-1, timestamps=[timestamp_ms] * 2))
    assert [header.max_timestamp for header in stored(log)] == [-1, -1]


@pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS.keys())
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_producers_append_time_bit_is_removed(tmp_path: Path, topic: dict[str, Any], codec: str) -> None:
    """With CreateTime, the bit is removed, as in Kafka."""
    log = new_log(tmp_path, **topic)
    append(log, with_append_time_bit(claiming(T0 + 1000, compression=codec)))
    (header,) = stored(log)
    assert (header.timestamp_type, header.max_timestamp) == ("CreateTime", T0 + 1000)


@pytest.mark.parametrize(
    ("topic", "max_timestamp_ms"), [({}, -1), ({"message_timestamp_type": "LogAppendTime"}, T0 + 1000)]
)
def test_a_producers_append_time_bit_is_refused(tmp_path: Path, topic: dict[str, Any], max_timestamp_ms: int) -> None:
    """The bit is refused in a batch without timestamps, and with LogAppendTime."""
    log = new_log(tmp_path, **topic)
    with pytest.raises(InvalidTimestamp) as refused:
        append(log, with_append_time_bit(claiming(max_timestamp_ms)))
    assert [index for index, _ in refused.value.record_errors] == [0, 1]
    assert all("LogAppendTime" in problem for _, problem in refused.value.record_errors)
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_each_record_outside_the_bounds_is_named(tmp_path: Path, codec: str) -> None:
    log = new_log(tmp_path, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    with pytest.raises(InvalidTimestamp) as refused:
        append(log, batch(4, timestamps=[T0, T0 - 1001, T0 + 500, T0 + 501], compression=codec))
    assert [index for index, _ in refused.value.record_errors] == [1, 3]
    assert str(T0 - 1001) in refused.value.record_errors[0][1]


def test_records_without_a_key_are_named_among_them(tmp_path: Path) -> None:
    """A single invalid timestamp makes the error INVALID_TIMESTAMP, as in Kafka."""
    log = new_log(tmp_path, message_timestamp_before_max_ms=1000, cleanup_policy=("compact",))
    records = RecordBatchBuilder()
    records.append(T0, None, b"v")
    records.append(T0 - 1001, b"k", b"v")
    with pytest.raises(InvalidTimestamp) as refused:
        append(log, bytearray(records.build()))
    assert [index for index, _ in refused.value.record_errors] == [0, 1]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS.keys())
def test_a_count_that_the_records_do_not_have_is_refused(tmp_path: Path, topic: dict[str, Any], codec: str) -> None:
    """If such a count were accepted, one batch could use up two billion offsets."""
    log = new_log(tmp_path, **topic)
    for claimed in (1, 3, 2**31 - 1):
        data = batch(2, key=b"k", compression=codec)
        data[23:27] = (claimed - 1).to_bytes(4, "big")
        data[57:61] = claimed.to_bytes(4, "big")
        set_crc(data)
        with pytest.raises(InvalidRecord):
            append(log, data)
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_compressed_records_whose_offsets_do_not_count_up_get_new_ones(tmp_path: Path, codec: str) -> None:
    log = new_log(tmp_path)
    records = encode_record(0, 0, None, b"v") * 2
    compressed = assemble_batch(
        compress(Compression[codec], records),
        attributes=Compression[codec],
        record_count=2,
        base_timestamp=T0,
        max_timestamp=T0,
    )
    append(log, compressed)
    read = present(log.read(0, 1 << 20).slice).read()
    assert [record.offset for record in decode_records(read)] == [0, 1]
