"""Selects range folders, Delta tables or Iceberg tables by the format in a manifest.

An earlier run may have used another format, so every manifest names its format.
"""

from collections.abc import Iterator
from typing import Any

from kafka_zk.spark_jobs.extraction.dead_letters import DeadLetter
from kafka_zk.spark_jobs.extraction.file_lake import FileLake
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.merge.cdc_options import staged_as
from kafka_zk.spark_jobs.extraction.merge.delta_merge import MergedDeltaTables
from kafka_zk.spark_jobs.extraction.merge.iceberg_merge import MergedIcebergTables
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.progress import Progress
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks
from kafka_zk.spark_jobs.extraction.table_formats import DELTA, ICEBERG
from kafka_zk.spark_jobs.extraction.table_lake import DeltaTables, IcebergTables, TableLake
from kafka_zk.spark_jobs.extraction.undecodable import Staged


class Lakes:
    """``delta``: the Delta tables of an extraction without ZooKeeper."""

    def __init__(
        self, spark: Any, extraction: Extraction, progress: Progress, delta: DeltaTables | None = None
    ) -> None:  # fmt: skip
        self._asked = extraction.format
        self._folders = FileLake(spark, staged_as(extraction), progress)
        if delta is None:
            delta = DeltaTables(spark) if extraction.cdc is None else MergedDeltaTables(spark, extraction)
        iceberg = IcebergTables(spark) if extraction.cdc is None else MergedIcebergTables(spark, extraction)
        self._tables = {
            DELTA: TableLake(self._folders, delta, extraction),
            ICEBERG: TableLake(self._folders, iceberg, extraction),
        }

    @property
    def cores(self) -> int:
        return self._folders.cores

    def qualified(self, target: str) -> str:
        return self._of(self._asked).qualified(target)

    def check(self) -> None:
        """Raises WronglyAsked."""
        self._of(self._asked).check()

    def stage(self, manifest: Manifest, tasks: ReadTasks, bootstrap_servers: str) -> Staged:
        return self._of(manifest.format).stage(manifest, tasks, bootstrap_servers)

    def undecodable(self, tasks: ReadTasks, bootstrap_servers: str) -> Iterator[DeadLetter]:
        return self._folders.undecodable(tasks, bootstrap_servers)

    def published(self, manifest: Manifest) -> str:
        return self._of(manifest.format).published(manifest)

    def is_published(self, manifest: Manifest) -> bool:
        return self._of(manifest.format).is_published(manifest)

    def check_disjoint(self, manifest: Manifest) -> None:
        if manifest.format not in self._tables:
            self._folders.check_disjoint(manifest)

    def publish(self, manifest: Manifest) -> None:
        self._of(manifest.format).publish(manifest)

    def discard(self, manifest: Manifest) -> None:
        self._of(manifest.format).discard(manifest)

    def attempts(self, target: str, prefix: str) -> list[Manifest]:
        """Like ``RangeFolders.attempts``, for Delta tables, whose target is their folder."""
        return self._folders.attempts(target, prefix)

    def in_table(self, manifest: Manifest) -> bool:
        table = self._tables.get(manifest.format)
        return table is not None and table.in_table(manifest)

    def is_fenced(self, manifest: Manifest) -> bool:
        table = self._tables.get(manifest.format)
        return table is not None and table.is_fenced(manifest)

    def fence(self, manifest: Manifest) -> bool:
        """Prevent any run from committing the plan to its table later; True if the table already has the records."""
        table = self._tables.get(manifest.format)
        return table is not None and table.fence(manifest)

    def _of(self, format: str) -> FileLake | TableLake:
        return self._tables.get(format, self._folders)
