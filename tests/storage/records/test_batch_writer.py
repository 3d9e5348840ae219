"""A batch built from a stream equals the batch that a producer would build."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.storage.files.errors import InvalidRecord, RecordTooLarge
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.records.batch_writer import BatchWriter
from kafka_zk.storage.records.compression import Compression, compress, decompress
from kafka_zk.storage.records.log_validator import conform
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, encode_record, read_header
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.records.stream_compressor import WHOLE_BYTES, StreamCompressor
from tests.storage.helpers import T0, batch

CODECS = list(Compression)
PIECES = st.lists(st.binary(max_size=300), max_size=20)


@given(PIECES, st.sampled_from(CODECS), st.integers(1, 3000))
def test_pieces_are_compressed_as_the_whole_is(pieces: list[bytes], codec: Compression, times: int) -> None:
    """The result is the same byte for byte, except the size field in the frame of large zstd data."""
    data = b"".join(pieces) * times
    compressor = StreamCompressor(codec)
    for start in range(0, len(data), 70_000):
        compressor.write(data[start : start + 70_000])
    result = bytes(compressor.finish())
    assert decompress(codec, result) == data
    if codec != Compression.zstd or len(data) <= WHOLE_BYTES:
        assert result == compress(codec, data)


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_ends_the_work(codec: Compression) -> None:
    """The writer stops as soon as the result exceeds the limit."""
    compressor = StreamCompressor(codec, max_size_bytes=100)
    with pytest.raises(RecordTooLarge):
        for number in range(100_000):
            compressor.write(b"%d" % number)
        compressor.finish()


@pytest.mark.parametrize("compression", [codec.name for codec in CODECS])
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_conforming_gives_the_batch_of_an_honest_producer(compression: str, target: str) -> None:
    """With another codec, the records are the same; with the same codec, the batch is the same."""
    own = "none" if target == "uncompressed" else target
    content: dict[str, Any] = {"timestamps": [T0, T0 + 7, T0 - 3], "key": b"k", "headers": [("h", b"x"), ("i", None)]}
    sent = batch(3, compression=compression, **content)
    conformed = conform(sent, read_header(sent), LogConfig(compression_type=target), T0)
    assert conformed == batch(3, compression=own, **content)
    assert (conformed is sent) == (own == compression)


def test_offset_deltas_that_do_not_count_up_are_given_anew() -> None:
    """Kafka does this in a compressed batch. Some clients have sent such deltas."""
    data = b"".join(encode_record(index, 7, None, b"%d" % index) for index in range(3))
    builder = RecordBatchBuilder("gzip")
    for index in range(3):
        builder.append(T0 + index, None, b"%d" % index)
    good = builder.build()
    odd = bytearray(good[:61] + compress(Compression.gzip, data))
    odd[8:12] = (len(odd) - 12).to_bytes(4, "big")
    conformed = conform(odd, read_header(odd), LogConfig(compression_type="gzip"), T0)
    assert [(record.offset, record.value) for record in decode_records(conformed)] == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert conformed == good


def test_records_that_break_a_rule() -> None:
    """The test has malformed fields, and a record that no producer writes."""
    odd = batch(2)
    odd[-1] = 9  # missing headers
    with pytest.raises(InvalidRecord):
        conform(odd, read_header(odd), LogConfig(compression_type="gzip"), T0)


def test_a_writer_encodes_what_it_gets() -> None:
    """Timestamps are encoded as deltas to the first one."""
    writer = BatchWriter(Compression.none)
    for delta in (0, 5):
        writer.add(T0 + delta, encode_record(0, 0, b"k", b"v")[4:])
    assert bytes(writer.finish()) == bytes(batch(2, timestamps=[T0, T0 + 5], key=b"k"))
