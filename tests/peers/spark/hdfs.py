"""A real HDFS for tests: Hadoop's mini cluster, a NameNode and a DataNode in one JVM, with the Hadoop of PySpark.

Tests read it over WebHDFS, not with the client that has written it.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyspark

from kafka_zk.embedded.ports import free_port
from tests.peers import jars
from tests.peers.processes import ServerProcess

_START_S = 120
_ANSWER_S = 120  # a DataNode on a busy machine responds late
_PYSPARK_JARS = Path(pyspark.__file__).parent / "jars"
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN")
_CONFIGURATION = {
    "dfs.permissions.enabled": "false",
    "dfs.replication": "1",
    "dfs.namenode.fs-limits.min-block-size": "1024",
}


class Hdfs:
    """``uri`` is its root for Spark."""

    def __init__(self, port: int, http_port: int) -> None:
        self.uri = f"hdfs://127.0.0.1:{port}"
        self._web = f"http://127.0.0.1:{http_port}/webhdfs/v1"

    def files(self, folder: str) -> Iterator[str]:
        """Paths of all files below an absolute path; none if it does not exist."""
        try:
            listed = json.loads(self._get(folder, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return
        for each in listed:
            path = f"{folder}/{each['pathSuffix']}"
            if each["type"] == "DIRECTORY":
                yield from self.files(path)
            else:
                yield path

    def read(self, path: str) -> bytes:
        return self._get(path, "OPEN")

    def _get(self, path: str, operation: str) -> bytes:
        with urllib.request.urlopen(f"{self._web}{quote(path)}?op={operation}", timeout=_ANSWER_S) as answer:
            data: bytes = answer.read()
        return data


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[Hdfs]:
    port, http_port, started = free_port(), free_port(), folder / "started.json"
    settings: dict[str, Any] = {"hdfs.minidfs.basedir": folder / "data", **_CONFIGURATION}
    command = [
        "java", *_JVM, "-cp", f"{jars.jars(jars.HDFS)}/*:{_PYSPARK_JARS}/*",
        "org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-nnport", str(port), "-httpport", str(http_port),
        "-writeDetails", str(started), *(f"-D{name}={value}" for name, value in settings.items()),
    ]  # fmt: skip
    process = ServerProcess("HDFS", command, folder / "log")
    try:
        process.wait_ready(started.exists, _START_S)
        yield Hdfs(port, http_port)
    finally:
        process.kill()
