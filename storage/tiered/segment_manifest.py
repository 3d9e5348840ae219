"""The manifest that Aiven's plugin writes beside each segment: JSON, version 1. Pure.

``chunkIndex`` has the sizes of the segment's chunks in the ``.log`` object (``chunk_index``), ``segmentIndexes`` the
places of the indexes in the ``.indexes`` object, ``encryption`` the encrypted data key (``segment_encryption``).
``remoteLogSegmentMetadata`` repeats the brokers' metadata; the plugin does not read it. The sizes are readable without
the key of an encrypted segment.
Source: SegmentManifestV1.java, SegmentIndexesV1.java and KafkaTypeSerdeModule.java of
Aiven-Open/tiered-storage-for-apache-kafka.
"""

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_zk.storage.tiered.chunk_index import ChunkIndex, InvalidManifest, parse_chunk_index, size_of
from kafka_zk.storage.tiered.segment_encryption import SegmentEncryption
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.uuid_text import id_text

MAX_MANIFEST_BYTES = 4 * 1024 * 1024
"""A variable index needs at most four bytes for each chunk before compression; a segment has at most 2 GiB."""

INDEX_NAMES = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")
"""The indexes in their order in the ``.indexes`` object. Only the last may be missing."""


class IndexPlace(NamedTuple):
    """The place of an index in the ``.indexes`` object."""

    position: int
    size_bytes: int


class ManifestSizes(NamedTuple):
    """``original_bytes``: the segment's size at the broker. ``log_bytes``, ``indexes_bytes``: the sizes of its objects
    in the bucket."""

    segment_id: str
    original_bytes: int
    log_bytes: int
    indexes_bytes: int


@dataclass(frozen=True, slots=True)
class SegmentManifest:
    """``segment_id``: as text. ``indexes``: places of the indexes, by name in the manifest. ``encryption``: None if the
    objects are not encrypted."""

    segment_id: str
    chunks: ChunkIndex
    indexes: Mapping[str, IndexPlace]
    is_compressed: bool
    encryption: SegmentEncryption | None = None

    @property
    def sizes(self) -> ManifestSizes:
        indexes_bytes = max(each.position + each.size_bytes for each in self.indexes.values())
        return ManifestSizes(self.segment_id, self.chunks.original_bytes, self.chunks.stored_bytes, indexes_bytes)


def parse_manifest(data: bytes) -> SegmentManifest:
    """Raises InvalidManifest; CorruptRecord for a damaged list of sizes; UnsupportedCompression without zstd."""
    try:
        document = json.loads(data)
        if document["version"] != "1":
            raise InvalidManifest(f"a manifest of version {document['version']!r:.20}, only 1 is known")
        is_compressed = document["compression"]
        if type(is_compressed) is not bool:
            raise InvalidManifest(f"compression is {is_compressed!r:.20}")
        return SegmentManifest(
            str(document["remoteLogSegmentMetadata"]["remoteLogSegmentId"]["id"]),
            parse_chunk_index(document["chunkIndex"]),
            _parse_indexes(document["segmentIndexes"]),
            is_compressed,
            _parse_encryption(document.get("encryption")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise InvalidManifest(f"not a manifest: {type(error).__name__} {str(error)[:100]}") from None


def _parse_encryption(document: Mapping[str, Any] | None) -> SegmentEncryption | None:
    if document is None:
        return None
    data_key = document["dataKey"]
    if not isinstance(data_key, str):
        raise InvalidManifest("dataKey is not a text")
    return SegmentEncryption(data_key, base64.b64decode(document["aad"], validate=True))


def _parse_indexes(document: Mapping[str, Any]) -> dict[str, IndexPlace]:
    return {
        name: IndexPlace(size_of(document[name], "position"), size_of(document[name], "size"))
        for name in INDEX_NAMES
        if name != INDEX_NAMES[-1] or document.get(name) is not None
    }


def serialize_manifest(manifest: SegmentManifest, segment: RemoteLogSegmentMetadata, broker_id: int) -> bytes:
    """``broker_id``: the broker that copies the segment."""
    indexes = {name: {"position": place.position, "size": place.size_bytes} for name, place in manifest.indexes.items()}
    document: dict[str, Any] = {
        "version": "1",
        "chunkIndex": manifest.chunks.document(),
        "segmentIndexes": {name: indexes.get(name) for name in INDEX_NAMES},
        "compression": manifest.is_compressed,
    }
    if manifest.encryption is not None:
        data_key, aad = manifest.encryption
        document["encryption"] = {"dataKey": data_key, "aad": base64.b64encode(aad).decode()}
    document["remoteLogSegmentMetadata"] = _metadata_document(segment, broker_id)
    return json.dumps(document, separators=(",", ":")).encode()


def _metadata_document(segment: RemoteLogSegmentMetadata, broker_id: int) -> dict[str, Any]:
    tp, segment_id = segment.segment_id
    topic_partition = {"topic": tp.topic, "partition": tp.partition}
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {"topicId": id_text(tp.topic_id), "topicPartition": topic_partition},
            "id": id_text(segment_id),
        },
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": broker_id,
        "eventTimestampMs": segment.event_timestamp_ms,
        "segmentLeaderEpochs": {str(epoch): start for epoch, start in segment.leader_epochs},
    }
