"""``partition.metadata``: the topic id of a partition's directory.

Two lines, ``version: 0`` and ``topic_id: <22 characters, url-safe base64>``. Source: PartitionMetadataFile.java@3.9.
Tests: tests/storage/test_partition_files.py.
"""

from storage.errors import InconsistentLogDir
from storage.filenames import PARTITION_METADATA
from storage.files import read_file, write_atomically


def read_topic_id(directory: str) -> str | None:
    """The topic id, None without a file (a topic from before Kafka 2.8) or with one that a power loss left empty.

    Raises: InconsistentLogDir for any other content.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    data = read_file(path)
    if not data or not data.strip(b"\0"):
        return None
    fields = dict(line.split(":", 1) for line in data.decode(errors="replace").splitlines() if ":" in line)
    topic_id = fields.get("topic_id", "").strip()
    if fields.get("version", "").strip() != "0" or not topic_id:
        raise InconsistentLogDir(f"{path}: expected version 0 and a topic id")
    return topic_id


def write_topic_id(directory: str, topic_id: str) -> None:
    """Write the file, atomically."""
    write_atomically(f"{directory}/{PARTITION_METADATA}", f"version: 0\ntopic_id: {topic_id}\n".encode(), durable=False)
