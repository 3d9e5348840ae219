"""Accesses the files of a table, in a local folder or in a store that pyarrow supports (S3, GCS, Azure, HDFS)."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import fs

from kafka_zk.spark_jobs.errors import AuditFailed

_OLD_NAMES = {"s3a": "s3", "s3n": "s3"}
_TYPES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "abfs", "abfss": "abfs", "hdfs": "hdfs",
    "viewfs": "hdfs",
}  # fmt: skip
"""Scheme -> type of pyarrow's file system. Names in a table's metadata are not URIs: ``%3A`` is part of a name."""
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
        """The path of a file that is named in a table's metadata. Relative names begin at ``folder``."""
        if address.startswith("file:") and self._system.type_name == "local":
            return address.removeprefix("file:").replace("///", "/", 1)
        scheme, joint, rest = address.partition("://")
        if not joint:
            return address if address.startswith("/") else f"{folder}/{address}"
        if _TYPES.get(scheme) != self._system.type_name:
            raise AuditFailed(f"{address} is not in the same store as {self.root}, or its store is unknown")
        place, _, key = rest.partition("/")
        return f"/{key}" if _TYPES[scheme] == "hdfs" else f"{place.partition('@')[0]}/{key}"

    def sizes(self, paths: Sequence[str]) -> Iterator[int | None]:
        """Sizes in bytes; None for each file that does not exist."""
        for start in range(0, len(paths), _AT_ONCE):
            for found in self._system.get_file_info(list(paths[start : start + _AT_ONCE])):
                yield found.size if found.type == fs.FileType.File else None

    def listed(self, folder: str, recursive: bool = False) -> Iterable[Any]:
        """``FileInfo`` of each file; empty if the folder does not exist. Raises AuditFailed if ``root`` is a file."""
        if folder == self.root and self._system.get_file_info(folder).type == fs.FileType.File:
            raise AuditFailed(f"{folder} is a file: give the table's folder, or an Iceberg metadata file")
        selector = fs.FileSelector(folder, recursive=recursive, allow_not_found=True)
        return [each for each in self._system.get_file_info(selector) if each.type == fs.FileType.File]

    def read(self, path: str) -> bytes:
        with self._system.open_input_stream(path, compression=None) as stream:
            return bytes(stream.readall())

    @contextmanager
    def opened(self, path: str) -> Iterator[Any]:
        """Open a file for random access."""
        with self._system.open_input_file(path) as file:
            yield file


def _current(address: str) -> str:
    scheme, joint, rest = address.partition("://")
    return f"{_OLD_NAMES.get(scheme, scheme)}{joint}{rest}"
