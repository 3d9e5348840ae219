"""How storage plugins name the objects of a remote segment. Pure.

All brokers of a cluster use one plugin, because ``__remote_log_metadata`` does not say which one copied a segment.
"""

import base64
import re
from typing import NamedTuple, Protocol
from uuid import UUID

from kafka_zk.storage.tiered.segment_manifest import SegmentManifest
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata

ID = "[A-Za-z0-9_-]{22}"
"""A pattern for Kafka's text of an id: url-safe base64 without padding."""


def id_text(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def id_of(text: str) -> UUID:
    """``text`` matches ``ID``."""
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


class KeyOwner(NamedTuple):
    """The partition and the segment that an object's key names."""

    topic: str
    topic_id: UUID
    partition: int
    segment_id: UUID


class ExpectedObject(NamedTuple):
    """``size_bytes``: None if it is not known. ``is_required``: False for an object that not every segment has."""

    key: str
    size_bytes: int | None
    is_required: bool = True


class Layout(Protocol):
    """``name``: of the plugin. ``prefix``: that of all keys."""

    name: str
    prefix: str

    def topic_prefix(self, topic: str, topic_id: UUID) -> str:
        """All keys of the topic begin with it. Those of others may, too."""

    def owner(self, key: str) -> KeyOwner | None:
        """None for a key that the plugin would not write."""

    def manifest_key(self, segment: RemoteLogSegmentMetadata) -> str | None:
        """The object that lists the sizes of the others; None if the layout has none."""

    def objects(
        self, segment: RemoteLogSegmentMetadata, manifest: SegmentManifest | None
    ) -> tuple[ExpectedObject, ...]:
        """The objects of a finished segment."""


def matched_owner(pattern: re.Pattern[str], key: str) -> KeyOwner | None:
    """The groups ``topic``, ``topic_id``, ``partition`` and ``segment_id`` of a pattern for whole keys."""
    match = pattern.fullmatch(key)
    if match is None:
        return None
    return KeyOwner(match["topic"], id_of(match["topic_id"]), int(match["partition"]), id_of(match["segment_id"]))
