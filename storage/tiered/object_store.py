"""The interface of object stores, and an implementation on a folder.

``FolderStore`` stores objects in a folder, as Kafka's LocalTieredStorage and the file system backend of Aiven's plugin
do. Buckets of S3, GCS and Azure need the extra ``[tiered]`` (``bucket_store``).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import StorageError

_MAX_DEPTH = 32
"""Maximum depth of folders, in case a link leads to a folder above itself."""


class ObjectStoreError(StorageError):
    """The store refused the request or did not respond in time. The message contains no secrets."""


class NoSuchObject(ObjectStoreError):
    """No object has the key."""


class ObjectTooLarge(ObjectStoreError):
    """An object has more bytes than the caller accepts."""


class StoredObject(NamedTuple):
    """``modified_ms``: when the store last wrote the object, by the store's clock."""

    key: str
    size_bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """Reads objects. Each call blocks for a bounded time. Raises ObjectStoreError."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """The objects whose keys begin with ``prefix``, which may end in the middle of a name. Folders that cannot
        contain such keys are not read. An object that is written or deleted during the listing may be listed or not.
        """

    def get(self, key: str, most_bytes: int) -> bytes:
        """The whole object. Also raises NoSuchObject, and ObjectTooLarge if it has too many bytes."""


class WritableStore(ObjectStore, Protocol):
    """An object store that a broker can use. Several threads may use it."""

    def get_range(self, key: str, position: int, size_bytes: int) -> bytes:
        """Up to ``size_bytes`` (at least 1) of an object; fewer only at its end. Also raises NoSuchObject."""

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        """Store an object durably, or replace it. An exception from ``parts`` propagates; a part of the object may then
        exist."""

    def delete(self, key: str) -> None:
        """Delete an object. A missing object is not an error."""


class FolderStore:
    """The keys are paths relative to ``root``, separated by ``/``."""

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
                        yield StoredObject(key, status.size_bytes, status.modified_ms)

    def _entries(self, folder: str) -> Sequence[files.Entry]:
        try:
            return files.list_directory(f"{self._root}/{folder}")
        except (FileNotFoundError, NotADirectoryError):
            return ()  # the file was deleted since it was listed
        except OSError as error:
            raise ObjectStoreError(f"{error.filename or self._root}: {error.strerror}") from error

    def get(self, key: str, most_bytes: int) -> bytes:
        path = self._path(key)
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

    def get_range(self, key: str, position: int, size_bytes: int) -> bytes:
        with _errors_of(key), files.opened(self._path(key)) as descriptor:
            return files.pread(descriptor, size_bytes, position)

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        path = self._path(key)
        folder = path.rpartition("/")[0]
        with _errors_of(key):
            files.make_directory(folder, durable=True)
            descriptor = files.open_new(path)
        try:
            for part in parts:
                with _errors_of(key):
                    files.write_all(descriptor, part)
            with _errors_of(key):
                files.sync_file(descriptor)
        finally:
            files.close(descriptor)
        with _errors_of(key):
            files.sync_path(folder)

    def delete(self, key: str) -> None:
        with _errors_of(key):
            files.remove_file(self._path(key))

    def _path(self, key: str) -> str:
        """Raises ObjectStoreError for a key outside the root, because a segment's metadata can name any key."""
        if ".." in key.split("/"):
            raise ObjectStoreError(f"{key}: not a path below {self._root}")
        return f"{self._root}/{key}"


@contextmanager
def _errors_of(key: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NoSuchObject(f"{key} does not exist") from None
    except OSError as error:
        raise ObjectStoreError(f"{key}: {error.strerror or error}") from error
