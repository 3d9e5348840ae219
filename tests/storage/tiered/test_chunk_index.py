"""Chunk indexes of Aiven's plugin: strings from the plugin's own tests, and ranges that span chunks."""

import base64
import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.storage.records.compression import Compression, decompress
from kafka_zk.storage.tiered.chunk_index import (
    Chunk,
    ChunkIndex,
    FixedChunkIndex,
    VariableChunkIndex,
    chunks_of,
    decode_chunk_sizes,
    encode_chunk_sizes,
    parse_chunk_index,
)

CHUNKS = "KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe"
"""Chunks of 10, 20 and 30 bytes. The string, like the documents below, is from ChunkIndexSerializationTest.java."""
FIXED = {
    "type": "fixed", "originalChunkSize": 100, "originalFileSize": 250, "transformedChunkSize": 110,
    "finalTransformedChunkSize": 30,
}  # fmt: skip
VARIABLE = {"type": "variable", "originalChunkSize": 100, "originalFileSize": 250, "transformedChunks": CHUNKS}
MAX = 2**31 - 1


def test_fixed_index_of_the_plugin() -> None:
    index = parse_chunk_index(FIXED)
    assert index == FixedChunkIndex(100, 250, 110, 30)
    assert list(chunks_of(index, 0, 250)) == [
        Chunk(0, 100, 0, 110), Chunk(100, 100, 110, 110), Chunk(200, 50, 220, 30),
    ]  # fmt: skip
    assert index.stored_bytes == 250
    assert list(index.document().items()) == list(FIXED.items())


def test_variable_index_of_the_plugin() -> None:
    index = parse_chunk_index(VARIABLE)
    assert index == VariableChunkIndex.of_sizes(100, 250, [10, 20, 30])
    assert list(chunks_of(index, 0, 250)) == [Chunk(0, 100, 0, 10), Chunk(100, 100, 10, 20), Chunk(200, 50, 30, 30)]
    assert index.stored_bytes == 60
    assert list(index.document().items()) == list(VARIABLE.items())


@pytest.mark.parametrize("document", [FIXED, VARIABLE])
@pytest.mark.parametrize(
    ("position", "size", "numbers"),
    [
        (0, 1, [0]),
        (99, 1, [0]),
        (99, 2, [0, 1]),
        (100, 100, [1]),
        (100, 101, [1, 2]),
        (249, 1, [2]),
        (199, 1000, [1, 2]),
        (250, 1, []),
        (0, 0, []),
    ],
)
def test_only_chunks_of_the_range_are_named(
    document: dict[str, object], position: int, size: int, numbers: list[int]
) -> None:
    """A range may end after the segment."""
    index = parse_chunk_index(document)
    every = list(chunks_of(index, 0, 250))
    assert list(chunks_of(index, position, size)) == [every[number] for number in numbers]


@given(st.integers(1, 50), st.integers(0, 400), st.data())
def test_chunks_are_next_to_each_other(chunk_bytes: int, original_bytes: int, data: st.DataObject) -> None:
    count = max(1, -(-original_bytes // chunk_bytes))
    sizes = data.draw(st.lists(st.integers(0, 99), min_size=count, max_size=count))
    index: ChunkIndex = VariableChunkIndex.of_sizes(chunk_bytes, original_bytes, sizes)
    found = list(chunks_of(index, 0, original_bytes))
    assert sum(each.original_bytes for each in found) == original_bytes
    assert [each.stored_bytes for each in found] == sizes[: len(found)]
    assert [each.stored_position for each in found] == list(accumulate(sizes, initial=0))[: len(found)]


def test_chunk_sizes_are_encoded_as_by_the_plugin() -> None:
    encoded = base64.b64decode(CHUNKS)
    assert decode_chunk_sizes(encoded) == [10, 20, 30]
    assert encode_chunk_sizes([10, 20, 30]) == encoded


@pytest.mark.parametrize(
    ("sizes", "width"),
    [
        ([0, 1000, 2, 44002, 369], 2),
        ([MAX, MAX - 1, MAX - 2, 10], 1),
        ([1, 2, 3, MAX], 1),
        ([1, 0xFF + 10, 0xFF + 30, MAX], 2),
        ([1, 0xFFFF + 10, 0xFFFF + 30, MAX], 3),
        ([1, 0xFFFFFF + 10, 0xFFFFFF + 30, MAX], 4),
        ([7, 7], 1),
    ],
)
def test_chunk_sizes_take_as_few_bytes_as_by_the_plugin(sizes: list[int], width: int) -> None:
    """The expected bytes are from ChunkSizesBinaryCodecTest.java."""
    encoded = encode_chunk_sizes(sizes)
    raw = decompress(Compression.zstd, encoded)
    assert struct.unpack_from(">iiB", raw) == (len(sizes), min(sizes[:-1]), width)
    assert len(raw) == 13 + (len(sizes) - 1) * width
    assert decode_chunk_sizes(encoded) == sizes


@pytest.mark.parametrize("size", [0, 213, MAX])
def test_one_chunk_size_has_no_base(size: int) -> None:
    encoded = encode_chunk_sizes([size])
    assert decompress(Compression.zstd, encoded) == struct.pack(">ii", 1, size)
    assert decode_chunk_sizes(encoded) == [size]
