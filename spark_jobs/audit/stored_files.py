"""Files of a table: in a local folder, or in a store that pyarrow knows (S3, GCS, Azure, HDFS)."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from kafka_zk.spark_jobs.errors import AuditFailed

_OLD_NAMES = {"s3a": "s3", "s3n": "s3"}
_AT_ONCE = 1000


class StoredFiles:
    """The store of one address. Paths are those of pyarrow's file systems. Raises AuditFailed, OSError."""

    def __init__(self, address: str) -> None:
        try:
            if "://" in address or address.startswith("file:"):
                self._system, self.root = fs.FileSystem.from_uri(_current(address))
            else:
                self._system, self.root = fs.LocalFileSystem(), posixpath.abspath(address)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise AuditFailed(f"{address}: {error}") from error
        self.root = str(self.root).rstrip("/")

    def path_of(self, address: str, folder: str) -> str:
        """The path of what a table's metadata name; ``folder``: where relative names begin."""
        parts = urlsplit(address)
        if len(parts.scheme) > 1 and parts.scheme == "file":
            return address.removeprefix("file:").replace("///", "/", 1)
        if "://" in address:
            try:
                return str(self._system.normalize_path(fs.FileSystem.from_uri(_current(address))[1]))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise AuditFailed(f"{address}: {error}") from error
        return address if address.startswith("/") else f"{folder}/{address}"

    def kind(self, path: str) -> Any:
        return self._system.get_file_info(path).type

    def sizes(self, paths: Sequence[str]) -> Iterator[int | None]:
        """In bytes; None for each that does not exist."""
        for start in range(0, len(paths), _AT_ONCE):
            for found in self._system.get_file_info(list(paths[start : start + _AT_ONCE])):
                yield found.size if found.type == fs.FileType.File else None

    def listed(self, folder: str, recursive: bool = False) -> Iterable[Any]:
        """``FileInfo`` of each file; none if there is no folder."""
        selector = fs.FileSelector(folder, recursive=recursive, allow_not_found=True)
        return [each for each in self._system.get_file_info(selector) if each.type == fs.FileType.File]

    def read(self, path: str) -> bytes:
        with self._system.open_input_stream(path, compression=None) as stream:
            return bytes(stream.readall())

    @contextmanager
    def opened(self, path: str) -> Iterator[Any]:
        """For random access."""
        with self._system.open_input_file(path) as file:
            yield file


def _current(address: str) -> str:
    scheme, joint, rest = address.partition("://")
    return f"{_OLD_NAMES.get(scheme, scheme)}{joint}{rest}"
