"""Manifests of Aiven's plugin: strings from the plugin's own tests, and damaged ones."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.tiered.chunk_index import InvalidManifest
from kafka_zk.storage.tiered.segment_encryption import SegmentEncryption
from kafka_zk.storage.tiered.segment_manifest import IndexPlace, ManifestSizes, parse_manifest, serialize_manifest
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_zk.storage.tiered.uuid_text import id_of

FIXED = (
    '{"version":"1","chunkIndex":{"type":"fixed","originalChunkSize":100,"originalFileSize":1000,'
    '"transformedChunkSize":110,"finalTransformedChunkSize":110},"segmentIndexes":{"offset":{"position":0,"size":1},'
    '"timestamp":{"position":1,"size":1},"producerSnapshot":{"position":2,"size":1},"leaderEpoch":{"position":3,'
    '"size":1},"transaction":{"position":4,"size":1}},"compression":false,"remoteLogSegmentMetadata":'
    '{"remoteLogSegmentId":{"topicIdPartition":{"topicId":"lZ6vvmajTWKDBUTV6SQAtQ","topicPartition":{"topic":"topic1",'
    '"partition":42}},"id":"adh9f8BMS4anaUnD8KWfWg"},"startOffset":0,"endOffset":1000,"maxTimestampMs":1000000000,'
    '"brokerId":2,"eventTimestampMs":2000000000,"segmentLeaderEpochs":{"0":100,"1":200,"2":300}}}'
)
"""The string is from SegmentManifestV1SerdeTest.java."""
CHUNKS = "KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe"
"""Chunks of 10, 20 and 30 bytes; the string is from ChunkIndexSerializationTest.java."""

SEGMENT = RemoteLogSegmentMetadata(
    RemoteLogSegmentId(
        TopicIdPartition(id_of("lZ6vvmajTWKDBUTV6SQAtQ"), "topic1", 42), id_of("adh9f8BMS4anaUnD8KWfWg")
    ),
    0, 1000, 1_000_000_000, 2_000_000_000, ((0, 100), (1, 200), (2, 300)), 1000, None,
    RemoteLogSegmentState.COPY_SEGMENT_STARTED,
)  # fmt: skip
"""The segment that the strings describe; broker 2 copied it."""
VARIABLE = {"type": "variable", "originalChunkSize": 100, "originalFileSize": 250, "transformedChunks": CHUNKS}


def manifest(**changes: Any) -> bytes:
    return json.dumps(json.loads(FIXED) | changes).encode()


def test_fixed_chunks_add_up() -> None:
    """The segment has ten chunks of 110 bytes, and five indexes of one byte."""
    assert parse_manifest(FIXED.encode()).sizes == ManifestSizes("adh9f8BMS4anaUnD8KWfWg", 1000, 1100, 5)


def test_variable_chunks_add_up() -> None:
    """The compressed chunks have 10, 20 and 30 bytes."""
    assert parse_manifest(manifest(chunkIndex=VARIABLE)).sizes[1:3] == (250, 60)


@pytest.mark.parametrize("has_transactions", [True, False])
def test_manifests_are_written_as_by_the_plugin(has_transactions: bool) -> None:
    """The manifests are equal byte for byte: the plugin's tests compare these strings, too."""
    string = FIXED
    if not has_transactions:
        string = string.replace('"transaction":{"position":4,"size":1}', '"transaction":null')
    parsed = parse_manifest(string.encode())
    assert serialize_manifest(parsed, SEGMENT, 2).decode() == string
    assert parsed.indexes["leaderEpoch"] == IndexPlace(3, 1)
    assert ("transaction" in parsed.indexes) is has_transactions


@pytest.mark.parametrize(
    ("size", "final", "expected"), [(250, 30, 2 * 110 + 30), (300, 110, 330), (99, 105, 105), (0, 0, 0)]
)
def test_last_fixed_chunk_has_its_own_size(size: int, final: int, expected: int) -> None:
    """The cases are three chunks with a shorter last one, exactly three, one, and none."""
    index = {"type": "fixed", "originalChunkSize": 100, "originalFileSize": size, "transformedChunkSize": 110,
             "finalTransformedChunkSize": final}  # fmt: skip
    assert parse_manifest(manifest(chunkIndex=index)).sizes.log_bytes == expected


def test_encrypted_segment_without_transaction_index() -> None:
    """Sizes can be read without the key."""
    indexes = json.loads(FIXED)["segmentIndexes"] | {"transaction": None}
    encryption = {"dataKey": "key:secret", "aad": "CgsMDQ=="}
    assert parse_manifest(manifest(segmentIndexes=indexes, encryption=encryption)).sizes.indexes_bytes == 4


def test_encryption_is_read_and_written_as_by_the_plugin() -> None:
    """The plugin's test compares this string, without the data key, which differs each time."""
    string = FIXED.replace(
        '"compression":false,', '"compression":false,"encryption":{"dataKey":"static-key-id:AAEC","aad":"CgsMDQ=="},'
    )
    parsed = parse_manifest(string.encode())
    assert parsed.encryption == SegmentEncryption("static-key-id:AAEC", bytes((10, 11, 12, 13)))
    assert serialize_manifest(parsed, SEGMENT, 2).decode() == string


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "2"},
        {"chunkIndex": None},
        {"chunkIndex": {"type": "other", "originalChunkSize": 100, "originalFileSize": 250}},
        {"chunkIndex": {"type": "fixed", "originalChunkSize": 0, "originalFileSize": 250}},
        {"chunkIndex": {"type": "fixed", "originalChunkSize": 100, "originalFileSize": -1}},
        {"chunkIndex": VARIABLE | {"originalFileSize": 900}},
        {"chunkIndex": VARIABLE | {"transformedChunks": "?"}},
        {"segmentIndexes": {}},
        {"compression": "false"},
        {"encryption": {}},
        {"encryption": "key:secret"},
        {"encryption": {"dataKey": "key:secret"}},
        {"encryption": {"dataKey": None, "aad": "CgsMDQ=="}},
        {"encryption": {"dataKey": "key:secret", "aad": "?"}},
        {"remoteLogSegmentMetadata": []},
    ],
)  # fmt: skip
def test_damaged_manifests_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidManifest):
        parse_manifest(manifest(**changes))


@given(st.integers(0, len(FIXED)), st.binary(max_size=20))
def test_garbage_raises_storage_errors_only(kept: int, garbage: bytes) -> None:
    """A truncated manifest is never taken for a whole one."""
    with pytest.raises(StorageError):
        parse_manifest(FIXED.encode()[: kept - 1] + b"\xff" + garbage)
