"""The names that storage plugins give to the objects of a remote segment. Pure.

All brokers of a cluster use one plugin, because ``__remote_log_metadata`` does not say which one copied a segment.
"""

import re
from typing import NamedTuple, Protocol
from uuid import UUID

from kafka_zk.storage.tiered.segment_manifest import ManifestSizes
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.uuid_text import id_of


class KeyOwner(NamedTuple):
    """The partition and the segment that an object's key names, and the segment's first offset."""

    topic: str
    topic_id: UUID
    partition: int
    segment_id: UUID
    start_offset: int


class ExpectedObject(NamedTuple):
    """``size_bytes``: None if it is not known. ``is_required``: False for an object that not every segment has."""

    key: str
    size_bytes: int | None
    is_required: bool = True


class Layout(Protocol):
    """``name``: the plugin's name. ``prefix``: the prefix of all keys."""

    name: str
    prefix: str

    def topic_prefix(self, topic: str, topic_id: UUID) -> str:
        """A prefix of all of the topic's keys. Keys of other topics may also begin with it."""

    def owner(self, key: str) -> KeyOwner | None:
        """The owner that the key names; None for a key that the plugin would not write."""

    def manifest_key(self, segment: RemoteLogSegmentMetadata) -> str | None:
        """The key of the object that lists the sizes of the others; None if the layout has no such object."""

    def objects(self, segment: RemoteLogSegmentMetadata, manifest: ManifestSizes | None) -> tuple[ExpectedObject, ...]:
        """The objects of a finished segment."""


def matched_owner(pattern: re.Pattern[str], key: str) -> KeyOwner | None:
    """The owner of a key; None if ``pattern`` does not match. The pattern's groups are ``topic``, ``topic_id``,
    ``partition``, ``segment_id`` and ``start_offset``."""
    match = pattern.fullmatch(key)
    if match is None:
        return None
    return KeyOwner(
        match["topic"], id_of(match["topic_id"]), int(match["partition"]), id_of(match["segment_id"]),
        int(match["start_offset"]),
    )  # fmt: skip
