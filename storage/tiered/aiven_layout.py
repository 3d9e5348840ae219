"""The keys of the objects that Aiven's plugin, tiered-storage-for-apache-kafka, writes.

::

    <key.prefix><topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id>.log
        and .indexes and .rsm-manifest; the manifest is written last

The plugin may keep tagged fields as custom metadata: tag 0 is the total size of the three objects (zigzag varint); tags
1 and 2 are the prefix and the rest of the key (compact strings), which then replace the names above.
Source: ObjectKeyFactory.java, SegmentCustomMetadataField.java of Aiven-Open/tiered-storage-for-apache-kafka.
"""

import re
from uuid import UUID

from kafka_zk.storage.tiered.layout import ExpectedObject, KeyOwner, matched_owner
from kafka_zk.storage.tiered.segment_manifest import ManifestSizes
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.uuid_text import ID, id_text

_OBJECT_PREFIX, _OBJECT_KEY = 1, 2


class AivenLayout:
    """``prefix``: the plugin's ``key.prefix``, unchanged, including a final slash if it has one."""

    name = "Aiven's plugin"

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._key = re.compile(
            rf"{re.escape(prefix)}(?P<topic>[^/]+)-(?P<topic_id>{ID})/(?P<partition>\d{{1,10}})"
            rf"/(?P<start_offset>\d{{20}})-(?P<segment_id>{ID})\.(log|indexes|rsm-manifest)",
            re.ASCII,
        )

    def topic_prefix(self, topic: str, topic_id: UUID) -> str:
        return f"{self.prefix}{topic}-{id_text(topic_id)}/"

    def owner(self, key: str) -> KeyOwner | None:
        return matched_owner(self._key, key)

    def log_key(self, segment: RemoteLogSegmentMetadata) -> str:
        return f"{self._stem(segment)}.log"

    def indexes_key(self, segment: RemoteLogSegmentMetadata) -> str:
        return f"{self._stem(segment)}.indexes"

    def manifest_key(self, segment: RemoteLogSegmentMetadata) -> str:
        return f"{self._stem(segment)}.rsm-manifest"

    def objects(self, segment: RemoteLogSegmentMetadata, manifest: ManifestSizes | None) -> tuple[ExpectedObject, ...]:
        log_bytes, indexes_bytes = (None, None) if manifest is None else (manifest.log_bytes, manifest.indexes_bytes)
        return (
            ExpectedObject(self.log_key(segment), log_bytes),
            ExpectedObject(self.indexes_key(segment), indexes_bytes),
            ExpectedObject(self.manifest_key(segment), None),
        )

    def _stem(self, segment: RemoteLogSegmentMetadata) -> str:
        tp, segment_id = segment.segment_id
        fields = custom_fields(segment.custom_metadata or b"")
        name = f"{tp.topic}-{id_text(tp.topic_id)}/{tp.partition}/{segment.start_offset:020d}-{id_text(segment_id)}"
        return fields.get(_OBJECT_PREFIX, self.prefix) + fields.get(_OBJECT_KEY, name)


def custom_fields(data: bytes) -> dict[int, str]:
    """The prefix and the rest of the key by tag; empty for metadata of another plugin."""
    try:
        count, position = _unsigned(data, 0) if data else (0, 0)
        fields = {}
        for _ in range(count):
            tag, position = _unsigned(data, position)
            size, start = _unsigned(data, position)
            position = start + size
            if position > len(data):
                return {}
            if tag in (_OBJECT_PREFIX, _OBJECT_KEY):
                length, start = _unsigned(data, start)
                fields[tag] = data[start : start + length - 1].decode()
        return fields
    except (IndexError, ValueError):
        return {}


def _unsigned(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while data[position] & 0x80:
        value |= (data[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return value | data[position] << shift, position + 1
