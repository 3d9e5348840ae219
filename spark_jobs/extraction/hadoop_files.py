"""Hadoop's file systems through the driver's JVM: ``file:``, ``hdfs:``, ``s3a:`` and others.

Folders and files are named by URIs. Failures raise py4j's ``Py4JJavaError``.
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError

from kafka_zk.spark_jobs.extraction.parquet.job import local_path
from kafka_zk.spark_jobs.extraction.stores import Publication, publication, scheme_of

_NOT_TO_BE_RENAMED = ("org.apache.hadoop.fs.FileAlreadyExistsException", "java.io.FileNotFoundException")


class HadoopFiles:
    """The file systems of a session, whose configuration contains their settings and keys."""

    def __init__(self, spark: Any) -> None:
        self._jvm = spark._jvm
        self._gateway = spark.sparkContext._gateway
        self._configuration = spark._jsc.hadoopConfiguration()

    def qualified(self, uri: str) -> str:
        path, files = self._found(uri)
        return str(files.makeQualified(path).toString()).rstrip("/")

    def exists(self, uri: str) -> bool:
        path, files = self._found(uri)
        return bool(files.exists(path))

    def is_file(self, uri: str) -> bool:
        path, files = self._found(uri)
        return bool(files.exists(path)) and bool(files.getFileStatus(path).isFile())

    def size(self, uri: str) -> int | None:
        """None if the file does not exist."""
        path, files = self._found(uri)
        return int(files.getFileStatus(path).getLen()) if files.exists(path) else None

    def rename(self, source: str, target: str) -> bool:
        """False if the file system refuses."""
        path, files = self._found(source)
        return bool(files.rename(path, self._path(target)))

    def rename_folder(self, source: str, target: str) -> bool:
        """Rename a folder, in one step if possible; False if the target exists or the source does not.

        ``rename`` would move the folder into an existing target.
        """
        if scheme_of(source) == "file":
            return rename_local_folder(local_path(source), local_path(target))
        files = self._jvm.org.apache.hadoop.fs
        path = self._path(source)
        context = files.FileContext.getFileContext(path.toUri(), self._configuration)
        try:
            context.rename(path, self._path(target), self._gateway.new_array(files.Options.Rename, 0))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() not in _NOT_TO_BE_RENAMED:
                raise
            return False
        return True

    def make_folder(self, uri: str) -> None:
        path, files = self._found(uri)
        files.mkdirs(path)

    def delete(self, uri: str) -> None:
        """Delete a file or a folder with its content. No effect if it does not exist."""
        path, files = self._found(uri)
        files.delete(path, True)

    def folders(self, uri: str) -> list[str]:
        """The sorted names of the folders in a folder; empty if ``uri`` does not exist."""
        path, files = self._found(uri)
        if not files.exists(path):
            return []
        return sorted(each.getPath().getName() for each in files.listStatus(path) if each.isDirectory())

    def walk(self, uri: str) -> Iterator[tuple[str, int]]:
        """Yield (relative path, size in bytes) of all files."""
        path, files = self._found(uri)
        if not files.exists(path):
            return
        root = files.makeQualified(path).toUri().getPath().rstrip("/") + "/"
        found = files.listFiles(path, True)
        while found.hasNext():
            status = found.next()
            yield status.getPath().toUri().getPath().removeprefix(root), int(status.getLen())

    def read(self, uri: str) -> bytes | None:
        """None if the file does not exist."""
        path, files = self._found(uri)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, uri: str, document: Mapping[str, Any]) -> None:
        """Write JSON. The file is complete or absent, even if the process is killed.

        A temporary file is renamed. An object store copies it instead, but shows an object only when it is complete.
        """
        path, files = self._found(uri)
        partial = self._path(f"{uri}.partial")
        stream = files.create(partial, True)
        stream.write(bytearray(json.dumps(document, sort_keys=True).encode()))
        stream.close()
        if not files.rename(partial, path):  # because an earlier attempt wrote the file
            files.delete(partial, False)

    def replace(self, uri: str, data: bytes) -> None:
        """Write a file, or replace it, in one step if the file system can.

        An object store shows an object only when it is complete, and some have no ``FileContext``.
        """
        path, files = self._found(uri)
        in_place = publication(uri) is Publication.COPY
        partial = path if in_place else self._path(f"{uri}.partial")
        stream = files.create(partial, True)
        stream.write(bytearray(data))
        stream.close()
        if in_place:
            return
        hadoop = self._jvm.org.apache.hadoop.fs
        overwrite = self._gateway.new_array(hadoop.Options.Rename, 1)
        overwrite[0] = hadoop.Options.Rename.OVERWRITE
        hadoop.FileContext.getFileContext(path.toUri(), self._configuration).rename(partial, path, overwrite)

    def _found(self, uri: str) -> tuple[Any, Any]:
        path = self._path(uri)
        return path, path.getFileSystem(self._configuration)

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)


def rename_local_folder(source: str, target: str) -> bool:
    """Like ``rename_folder``, but without Hadoop, which would copy the folder into a target that appears after its
    check."""
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT):
            raise
        return False
    return True
