"""``partition.metadata``: the topic id of a partition.

Two lines, ``version: 0`` and ``topic_id: <22 characters, url-safe base64>``. As in Kafka, the file exists before the
first record is written.
Source: PartitionMetadataFile.java, UnifiedLog.maybeFlushMetadataFile@3.9.
Tests: tests/storage/test_partition_files.py.
"""

import base64
import re

from kafka_zk.storage.files.errors import CorruptCheckpoint
from kafka_zk.storage.files.filenames import PARTITION_METADATA
from kafka_zk.storage.files.files import read_file, write_atomically

_ID = re.compile("[A-Za-z0-9_-]{22}")


def read_topic_id(directory: str) -> str | None:
    """The topic id; None if there is no file, as for topics created before Kafka 2.8.

    Raises: CorruptCheckpoint for invalid content, which a power loss may leave in a new partition.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    data = read_file(path)
    if data is None:
        return None
    fields = dict(line.split(":", 1) for line in data.decode(errors="replace").splitlines() if ":" in line)
    topic_id = fields.get("topic_id", "").strip()
    if fields.get("version", "").strip() != "0" or not _is_topic_id(topic_id):
        raise CorruptCheckpoint(f"{path}: expected version 0 and a topic id")
    return topic_id


def _is_topic_id(text: str) -> bool:
    """True for the canonical encoding of 16 bytes that are not all zero."""
    if not _ID.fullmatch(text):
        return False
    value = base64.urlsafe_b64decode(text + "==")
    return any(value) and base64.urlsafe_b64encode(value).rstrip(b"=").decode() == text


def write_topic_id(directory: str, topic_id: str) -> None:
    """Write the file atomically."""
    write_atomically(f"{directory}/{PARTITION_METADATA}", f"version: 0\ntopic_id: {topic_id}\n".encode(), durable=False)
