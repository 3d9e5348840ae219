"""The folders of Kafka's LocalTieredStorage, the plugin that Kafka's own tests use.

::

    kafka-tiered-storage/<topic>-<partition>-<topic id>/<start offset, 20 digits>-<segment id>.log
        and .index .timeindex .snapshot .leader_epoch_checkpoint, and .txnindex if the segment has aborted transactions

Source: LocalTieredStorage.java, RemoteTopicPartitionDirectory.java, RemoteLogSegmentFileset.java@3.9.
"""

import re
from uuid import UUID

from kafka_zk.storage.tiered.layout import ExpectedObject, KeyOwner, matched_owner
from kafka_zk.storage.tiered.segment_manifest import ManifestSizes
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.uuid_text import ID, id_text

FOLDER = "kafka-tiered-storage"

_KEY = re.compile(
    rf"{FOLDER}/(?P<topic>[^/]+)-(?P<partition>\d{{1,10}})-(?P<topic_id>{ID})/(?P<start_offset>\d{{20}})-(?P<segment_id>{ID})"
    r"\.(log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)",
    re.ASCII,
)


class LocalTieredStorageLayout:
    name = "Kafka's LocalTieredStorage"
    prefix = f"{FOLDER}/"

    def topic_prefix(self, topic: str, topic_id: UUID) -> str:
        return f"{self.prefix}{topic}-"  # the partition follows

    def owner(self, key: str) -> KeyOwner | None:
        return matched_owner(_KEY, key)

    def manifest_key(self, segment: RemoteLogSegmentMetadata) -> str | None:
        return None

    def objects(self, segment: RemoteLogSegmentMetadata, manifest: ManifestSizes | None) -> tuple[ExpectedObject, ...]:
        stem = self.stem(segment)
        return (
            ExpectedObject(f"{stem}.log", segment.size_bytes),
            *(
                ExpectedObject(f"{stem}.{suffix}", None)
                for suffix in ("index", "timeindex", "snapshot", "leader_epoch_checkpoint")
            ),
            ExpectedObject(f"{stem}.txnindex", None, is_required=False),
        )

    def stem(self, segment: RemoteLogSegmentMetadata) -> str:
        """The keys of the segment's objects, up to the dot before the suffix."""
        tp, segment_id = segment.segment_id
        folder = f"{self.prefix}{tp.topic}-{tp.partition}-{id_text(tp.topic_id)}"
        return f"{folder}/{segment.start_offset:020d}-{id_text(segment_id)}"
