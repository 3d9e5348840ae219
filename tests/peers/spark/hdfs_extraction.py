"""Extractions into the HDFS of ``hdfs.py``, killed and recovered."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.spark.killed_extraction import ONE_ATTEMPT, KilledExtraction
from tests.peers.spark.hdfs import Hdfs, hdfs_cluster


class IntoHdfs(KilledExtraction):
    format = "parquet"

    def __init__(
        self, cluster: EmbeddedCluster, folder: Path, topic: str, hdfs: Hdfs, master: str = ONE_ATTEMPT, **conf: str
    ) -> None:
        super().__init__(cluster, folder, topic, master, **conf)
        self._hdfs = hdfs
        self._target = f"{hdfs.uri}/lake/{topic}"

    def _records(self) -> Iterator[tuple[int, int, str]]:
        for path in self.shown():
            for record in pq.read_table(io.BytesIO(self._hdfs.read(path))).to_pylist():
                yield record["partition"], record["offset"], record["value"]

    def shown(self) -> list[str]:
        """The files that a reader sees when listing the folder."""
        return [path for path in self._files() if "/_" not in path and "/." not in path]

    def staged(self) -> list[str]:
        return [path for path in self._files() if "/_kafka_zk_staging/" in path]

    def _files(self) -> list[str]:
        return sorted(self._hdfs.files(urlsplit(self._target).path))


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster
