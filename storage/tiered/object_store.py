"""What is read from an object store: names, sizes and small objects. Nothing is written.

``FolderStore`` is a folder, for Kafka's LocalTieredStorage and the file system backend of Aiven's plugin. Buckets
of S3, GCS and Azure need the extra ``[tiered]`` (``bucket_store``).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import StorageError

_MAX_DEPTH = 32
"""Of folders, in case a link leads back to one above it."""


class ObjectStoreError(StorageError):
    """The store refuses or does not answer in time. The message has no secrets."""


class NoSuchObject(ObjectStoreError):
    """No object has the key."""


class ObjectTooLarge(ObjectStoreError):
    """An object has more bytes than the caller takes."""


class StoredObject(NamedTuple):
    key: str
    size_bytes: int


class ObjectStore(Protocol):
    """Calls block, each for at most a known time. They raise ObjectStoreError."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with ``prefix``, also in the middle of a name. It reads no folder that has none
        of them. An object that is written or deleted meanwhile may be listed or not.
        """

    def get(self, key: str, most_bytes: int) -> bytes:
        """The whole object. Raises also NoSuchObject, and ObjectTooLarge if it has more bytes."""


class FolderStore:
    """The keys are paths below ``root``, with ``/``."""

    def __init__(self, root: str) -> None:
        self._root = root

    def list(self, prefix: str) -> Iterator[StoredObject]:
        pending = [prefix[: prefix.rfind("/") + 1]]
        while pending:
            folder = pending.pop()
            for name, is_directory in sorted(self._entries(folder)):
                key = f"{folder}{name}"
                if is_directory:
                    if key.count("/") < _MAX_DEPTH and (f"{key}/".startswith(prefix) or prefix.startswith(f"{key}/")):
                        pending.append(f"{key}/")
                elif key.startswith(prefix):
                    status = files.status(f"{self._root}/{key}")
                    if status is not None:
                        yield StoredObject(key, status.size_bytes)

    def _entries(self, folder: str) -> Sequence[files.Entry]:
        try:
            return files.list_directory(f"{self._root}/{folder}")
        except (FileNotFoundError, NotADirectoryError):
            return ()  # deleted meanwhile
        except OSError as error:
            raise ObjectStoreError(f"{error.filename or self._root}: {error.strerror}") from error

    def get(self, key: str, most_bytes: int) -> bytes:
        path = f"{self._root}/{key}"
        try:
            status = files.status(path)
            if status is not None and status.size_bytes > most_bytes:
                raise ObjectTooLarge(f"{key} has more than {most_bytes} bytes")
            data = files.read_file(path)
        except OSError as error:
            raise ObjectStoreError(f"{key}: {error.strerror}") from error
        if data is None:
            raise NoSuchObject(f"{key} does not exist")
        return data
