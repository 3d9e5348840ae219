"""A broker's storage plugin, which copies segments to remote storage, and reads and deletes them.

``LocalSegmentStorage`` writes the folders of Kafka's LocalTieredStorage. Calls block, and may hang for as long as the
folder's file system does, so they belong on threads with deadlines.
Source: RemoteStorageManager.java, LogSegmentData.java, LocalTieredStorage.java@3.9.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from kafka_zk.storage.files import files
from kafka_zk.storage.segments.offset_index import parse_offset_index, serialize_offset_index
from kafka_zk.storage.segments.time_index import valid_time_index
from kafka_zk.storage.tiered.local_tiered_storage import LocalTieredStorageLayout
from kafka_zk.storage.tiered.object_store import NoSuchObject, ObjectStoreError, ObjectTooLarge
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata

_CHUNK_BYTES = 1 << 20


class SegmentPart(Enum):
    """A file that belongs to a segment in addition to its ``.log``. Values: suffixes in the folders of
    LocalTieredStorage."""

    OFFSET_INDEX = "index"
    TIME_INDEX = "timeindex"
    TRANSACTION_INDEX = "txnindex"
    PRODUCER_SNAPSHOT = "snapshot"
    LEADER_EPOCHS = "leader_epoch_checkpoint"


class SegmentData(NamedTuple):
    """A closed segment. ``log_path``: its ``.log`` file. ``parts``: the content of its other files, of which only
    TRANSACTION_INDEX may be missing."""

    log_path: str
    parts: Mapping[SegmentPart, bytes]


class SegmentStorage(Protocol):
    """All methods raise ObjectStoreError."""

    def copy(self, segment: RemoteLogSegmentMetadata, data: SegmentData) -> None:
        """Store all objects durably."""

    def read(self, segment: RemoteLogSegmentMetadata, position: int, size_bytes: int) -> bytes:
        """Up to ``size_bytes`` of the ``.log``; fewer only at its end. Also raises NoSuchObject."""

    def read_part(self, segment: RemoteLogSegmentMetadata, part: SegmentPart, most_bytes: int) -> bytes:
        """A whole part. Also raises NoSuchObject, and ObjectTooLarge if it has more than ``most_bytes``."""

    def delete(self, segment: RemoteLogSegmentMetadata) -> None:
        """Delete all objects of the segment. Missing objects are not an error."""


class LocalSegmentStorage:
    """Kafka's LocalTieredStorage below the folder ``root``."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._layout = LocalTieredStorageLayout()

    def copy(self, segment: RemoteLogSegmentMetadata, data: SegmentData) -> None:
        try:
            folder = self._path(segment, "log").rpartition("/")[0]
            files.make_directory(folder, durable=True)
            for part, content in data.parts.items():
                path = self._path(segment, part.value)
                files.write_file(path, content)
                files.sync_path(path)
            _copy_file(data.log_path, self._path(segment, "log"), segment.size_bytes)
            files.sync_path(folder)
        except OSError as error:
            raise _failed(segment, error) from error

    def read(self, segment: RemoteLogSegmentMetadata, position: int, size_bytes: int) -> bytes:
        path = self._path(segment, "log")
        try:
            with files.opened(path) as descriptor:
                return files.pread(descriptor, size_bytes, position)
        except FileNotFoundError:
            raise NoSuchObject(f"{path} does not exist") from None
        except OSError as error:
            raise _failed(segment, error) from error

    def read_part(self, segment: RemoteLogSegmentMetadata, part: SegmentPart, most_bytes: int) -> bytes:
        path = self._path(segment, part.value)
        try:
            found = files.status(path)
            if found is None:
                raise NoSuchObject(f"{path} does not exist")
            if found.size_bytes > most_bytes:
                raise ObjectTooLarge(f"{path} has more than {most_bytes} bytes")
            content = files.read_file(path)
            if content is None:  # the segment was just deleted; an empty index would hide aborted transactions
                raise NoSuchObject(f"{path} does not exist")
            return content
        except OSError as error:
            raise _failed(segment, error) from error

    def delete(self, segment: RemoteLogSegmentMetadata) -> None:
        try:
            for suffix in ("log", *(part.value for part in SegmentPart)):
                files.remove_file(self._path(segment, suffix))
        except OSError as error:
            raise _failed(segment, error) from error

    def _path(self, segment: RemoteLogSegmentMetadata, suffix: str) -> str:
        return f"{self._root}/{self._layout.stem(segment)}.{suffix}"


def trimmed_offset_index(data: bytes) -> bytes:
    """The entries of an ``.index`` file, without the zeros that a killed Kafka broker leaves at its end."""
    return serialize_offset_index(parse_offset_index(data))


def trimmed_time_index(data: bytes) -> bytes:
    """Like ``trimmed_offset_index``, for a ``.timeindex`` file."""
    return valid_time_index(data)


def _copy_file(source: str, target: str, size_bytes: int) -> None:
    """Copy the first ``size_bytes`` durably. Raises: OSError, also if the source is shorter."""
    with files.opened(source) as descriptor:
        written = files.open_new(target)
        try:
            position = 0
            while position < size_bytes:
                chunk = files.pread(descriptor, min(_CHUNK_BYTES, size_bytes - position), position)
                if not chunk:
                    raise OSError(None, f"the segment ends at {position} of {size_bytes} bytes", source)
                files.write_all(written, chunk)
                position += len(chunk)
            files.sync_file(written)
        finally:
            files.close(written)


def _failed(segment: RemoteLogSegmentMetadata, error: OSError) -> ObjectStoreError:
    tp = segment.segment_id.tp
    return ObjectStoreError(
        f"segment {segment.start_offset} of {tp.topic}-{tp.partition}: {error.filename or ''} {error.strerror or error}"
    )
