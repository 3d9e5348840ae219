"""Batches become consumer records."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.records import decode_batch
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, read_header

TP = TopicPartition("t", 2)


def batch(count: int = 3, compression: str = "none", **options: bool) -> bytes:
    builder = RecordBatchBuilder(compression, **options)
    for index in range(count):
        builder.append(1000 + index, b"k%d" % index, b"v%d" % index, [("h", b"x"), ("none", None)])
    return builder.build(base_offset=10, partition_leader_epoch=4)


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "snappy", "zstd"])
def test_all_fields_arrive(compression: str) -> None:
    """Offset, timestamp, key, value, headers and leader epoch are decoded with every codec."""
    data = batch(compression=compression)
    first = decode_batch(TP, data, 0, read_header(data), 0, True)[0]
    assert tuple(first) == ("t", 2, 10, 1000, b"k0", b"v0", (("h", b"x"), ("none", None)), 4, False)
    assert first.tp == TP


def test_records_before_the_position_are_left_out() -> None:
    """A broker sends whole batches; a reader that starts inside one gets the rest of it."""
    data = batch()
    assert [each.offset for each in decode_batch(TP, data, 0, read_header(data), 11, True)] == [11, 12]
    assert decode_batch(TP, data, 0, read_header(data), 13, True) == []


def test_control_batches_have_no_records_for_consumers() -> None:
    """Transaction markers are skipped."""
    data = batch(control=True)
    assert decode_batch(TP, data, 0, read_header(data), 0, True) == []


def test_damage_is_found_unless_checking_is_off() -> None:
    """check.crcs=false trusts the network and the broker."""
    data = bytearray(batch())
    data[-5] ^= 1
    with pytest.raises(CorruptRecord):
        decode_batch(TP, data, 0, read_header(data), 0, True)
    assert len(decode_batch(TP, data, 0, read_header(data), 0, False)) == 3


def test_log_append_time_is_marked() -> None:
    """The broker's timestamp replaces the producer's."""
    data = batch(log_append_time=True)
    assert {each.timestamp_ms for each in decode_batch(TP, data, 0, read_header(data), 0, True)} == {1002}
    assert decode_batch(TP, data, 0, read_header(data), 0, True)[0].is_log_append_time
