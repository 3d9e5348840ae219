"""Codecs: round trips, framing that Java can read, and size limits."""

import gzip
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import lz4.frame
import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.storage.files.errors import CorruptRecord, StorageError, UnsupportedCompression
from kafka_zk.storage.records.compression import Compression, compress, decompress
from kafka_zk.storage.records.lz4_checksum import with_checksum, xxhash32_short

CODECS = [codec for codec in Compression if codec]


@given(st.sampled_from(list(Compression)), st.binary(max_size=100_000))
def test_data_come_back(codec: Compression, data: bytes) -> None:
    """Data survive a round trip with every codec, even if they are empty."""
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_holds(codec: Compression) -> None:
    """Data of exactly the limit's size are accepted; one byte more is refused."""
    data = compress(codec, b"\0" * 300_000)
    assert len(decompress(codec, data, 300_000)) == 300_000
    with pytest.raises(CorruptRecord):
        decompress(codec, data, 299_999)


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_garbage_gives_typed_errors_only(codec: Compression, data: bytes) -> None:
    """Damaged data raise only StorageError."""
    with suppress(StorageError):
        decompress(codec, data, 10_000)


@pytest.mark.parametrize("codec", CODECS)
def test_data_cut_off_anywhere_are_noticed_or_shorter(codec: Compression) -> None:
    """Truncated data raise an error or, at a block's end, give a prefix."""
    data = bytes(range(256)) * 300
    whole = compress(codec, data)
    for cut in range(0, len(whole), max(1, len(whole) // 50)):
        with suppress(CorruptRecord):
            assert data.startswith(decompress(codec, whole[:cut]))


def test_snappy_is_written_in_javas_framing_and_read_without() -> None:
    """The writer uses xerial's header and length-prefixed blocks of 32 KB; the reader also accepts one plain block."""
    data = b"abc" * 30_000
    framed = compress(Compression.snappy, data)
    assert framed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    length = int.from_bytes(framed[16:20], "big")
    assert snappy.uncompress(framed[20 : 20 + length]) == data[: 32 * 1024]
    assert decompress(Compression.snappy, snappy.compress(data)) == data


def test_lz4_frames_have_independent_blocks() -> None:
    """Java's reader refuses linked blocks, and so does ours."""
    data = b"abc" * 100_000
    assert lz4.frame.get_frame_info(compress(Compression.lz4, data))["block_linked"] is False
    with pytest.raises(CorruptRecord, match="linked"):
        decompress(Compression.lz4, lz4.frame.compress(data, block_linked=True))


def test_lz4_is_compressed_by_several_threads_at_once() -> None:
    """Concurrent threads use different contexts, and later calls reuse them."""
    datas = [bytes([number]) * 1000 + random.Random(number).randbytes(200_000) for number in range(8)]
    expected = [lz4.frame.compress(data, block_linked=False, block_size=4, store_size=False) for data in datas]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert list(pool.map(partial(compress, Compression.lz4), datas)) == expected


@pytest.mark.parametrize("store_size", [False, True])
def test_lz4_frames_in_a_row_are_read_one_by_one(store_size: bool) -> None:
    """Frames are decompressed at once or in steps, depending on the limit and the size in the frame header."""
    frame = partial(lz4.frame.compress, block_linked=False, store_size=store_size)
    frames = [frame(b"a" * 3000), frame(b""), frame(b"b" * 99_999)]
    for bound in (102_999, 1 << 20, 1 << 27):
        assert decompress(Compression.lz4, b"".join(frames), bound) == b"a" * 3000 + b"b" * 99_999
        with pytest.raises(CorruptRecord):
            decompress(Compression.lz4, b"".join(frames)[:-1], bound)
        with pytest.raises(CorruptRecord, match="no frame"):
            decompress(Compression.lz4, b"".join(frames) + b"x", bound)
    with pytest.raises(CorruptRecord, match="grow"):
        decompress(Compression.lz4, b"".join(frames), 102_998)


def test_several_members_are_read_as_one() -> None:
    """The members are consecutive gzip members or zstd frames."""
    assert decompress(Compression.gzip, gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"
    frames = compress(Compression.zstd, b"a" * 100_000) + compress(Compression.zstd, b"b")
    assert decompress(Compression.zstd, frames) == b"a" * 100_000 + b"b"


def test_a_zstd_frame_that_ends_in_the_middle_is_damaged() -> None:
    data = random.Random(1).randbytes(200_000)
    frame = compress(Compression.zstd, data)
    for size in (1, 5, 100_000, len(frame) - 1):
        with pytest.raises(CorruptRecord, match="zstd: the data are truncated"):
            decompress(Compression.zstd, frame[:size])
    with pytest.raises(CorruptRecord, match="zstd"):
        decompress(Compression.zstd, frame + b"garbage")


def test_thousands_of_empty_zstd_frames_are_refused_soon() -> None:
    with pytest.raises(CorruptRecord, match="parts"):
        decompress(Compression.zstd, compress(Compression.zstd, b"") * 1_000_000)


def test_unknown_codecs_are_refused() -> None:
    """Numbers 5 to 7 were never assigned."""
    with pytest.raises(UnsupportedCompression):
        decompress(6, b"")


def test_the_lz4_header_checksum_can_be_broken_and_mended() -> None:
    """In magic 0, the checksum also covers the frame's magic number."""
    good = compress(Compression.lz4, b"hello" * 100)
    assert with_checksum(good, broken=False) == good
    broken = with_checksum(good, broken=True)
    assert broken != good
    with pytest.raises(CorruptRecord):
        decompress(Compression.lz4, broken)
    assert with_checksum(broken, broken=False) == good


def test_xxhash_of_known_inputs() -> None:
    """The expected values are reference values of XXH32 with seed 0."""
    assert xxhash32_short(b"") == 0x02CC5D05
    assert xxhash32_short(b"a") == 0x550D7456
    assert xxhash32_short(b"abc") == 0x32D153FF
