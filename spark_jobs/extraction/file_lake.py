"""A lake of plain files: executors or Spark write the staging folder, and ``range_folders.py`` publishes it.

Folders are in Spark's Hadoop file systems; ``stores.py`` defines how each kind of store publishes.
"""

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError

from kafka_zk.spark_jobs.errors import ExtractionFailed, WronglyAsked
from kafka_zk.spark_jobs.extraction import file_sizes, partitioning, session_settings
from kafka_zk.spark_jobs.extraction.dead_letters import DeadLetter
from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile, staged_files
from kafka_zk.spark_jobs.extraction.executor_writer import ExecutorWriter
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.parquet.job import local_path
from kafka_zk.spark_jobs.extraction.parquet.task import FileSpec
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.progress import JobProgress, Progress
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks
from kafka_zk.spark_jobs.extraction.record_frames import RecordFrames
from kafka_zk.spark_jobs.extraction.schemas import type_changes
from kafka_zk.spark_jobs.extraction.schemas.folder_schemas import UNKNOWN, Schema
from kafka_zk.spark_jobs.extraction.schemas.parquet_schemas import schemas_of_folders
from kafka_zk.spark_jobs.extraction.spark_failure import first_line
from kafka_zk.spark_jobs.extraction.stores import Publication, missing_module, publication
from kafka_zk.spark_jobs.extraction.table_formats import is_table
from kafka_zk.spark_jobs.extraction.undecodable import Staged

_TO_MICROS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS[XXXXX]",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_TEXT_OPTIONS = {
    "json": _TO_MICROS,
    "csv": {**_TO_MICROS, "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"},
}
"""Spark's defaults would write milliseconds, and strip spaces around text in CSV."""
_COMMITTER = "mapreduce.fileoutputcommitter.algorithm.version"


class FileLake:
    """Folders in Hadoop's file systems. Also handles folders of earlier runs, because every manifest names its
    target."""

    def __init__(self, spark: Any, extraction: Extraction, progress: Progress) -> None:
        self._spark = spark
        self._extraction = extraction
        self._progress = progress
        self._files = HadoopFiles(spark)
        self._folders = RangeFolders(self._files, lambda paths: int(spark.read.parquet(*paths).count()))
        self._schemas = schemas_of_folders(spark, self._folders)
        self._frames = RecordFrames(spark, extraction)
        self._executors = ExecutorWriter(spark, extraction, self._frames)

    @property
    def cores(self) -> int:
        """Number of tasks that Spark can currently run at a time; executors may come and go."""
        return int(self._spark.sparkContext.defaultParallelism)

    def qualified(self, folder: str) -> str:
        return self._files.qualified(folder)

    def check(self) -> None:
        """Check the target and the columns before the start. Raises WronglyAsked."""
        self._check_target()
        self.check_columns()
        if told := self._refusal_of_types(self.qualified(self._extraction.target)):
            raise WronglyAsked(told)

    def _check_target(self) -> None:
        target = self._extraction.target
        try:
            if self._files.is_file(target):
                raise WronglyAsked(f"{target} is a file, not a folder")
        except Py4JJavaError as error:
            hadoop = str(self._spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion())
            told = missing_module(target, str(error), hadoop)
            raise WronglyAsked(told or f"{target}: {first_line(error)}") from error

    def check_columns(self) -> None:
        """Raises: WronglyAsked, RegistryFailed."""
        self._frames.check()

    def _refusal_of_types(self, target: str) -> str | None:
        """Why files of these types cannot be added to the folder; None if they can, or if it is a table's."""
        if self._extraction.format != type_changes.PARQUET:
            return None
        changes = self._schemas.changes(target, self._written())
        return type_changes.refusal(target, changes, widen=self._extraction.widen)

    def _written(self) -> Schema:
        found: Schema = self.empty().schema.jsonValue()
        return found

    def empty(self) -> Any:
        """The frame that a run without records would write."""
        return self._frames.empty()

    def staged(self, manifest: Manifest) -> Any:
        """Raises ExtractionFailed if staged files are gone."""
        self._folders.staged(manifest)
        return self._spark.read.schema(self.empty().schema).parquet(self._folders.staging(manifest))

    def staged_files(self, manifest: Manifest) -> list[StagedFile]:
        """The files that executors staged. Raises ExtractionFailed if some are gone."""
        return staged_files(local_path(self._folders.staging(manifest)), self._folders.staged(manifest))

    def stage(
        self, manifest: Manifest, tasks: ReadTasks, bootstrap_servers: str, table: FileSpec | str | None = None
    ) -> Staged:
        """Write the tasks' records to the staging folder, and describe the result.

        ``table``: the format that a table's files need, or why Spark's writer must write them; None if they need
        nothing special.
        """
        self._progress(0, sum(tasks.sizes))  # Spark needs seconds to begin its first task
        version = self._schema_version(manifest.target)
        staging = self._folders.staging(manifest)
        with JobProgress(self._spark, staging, tasks.sizes, self._progress):
            told = table if isinstance(table, str) else None
            because = told or self._executors.sparks_writer_because(manifest.target)
            if because is None:
                needed = table if isinstance(table, FileSpec) else None
                staged = self._executors.write(staging, tasks, bootstrap_servers, needed)
            else:
                staged = self._with_spark(manifest, tasks, bootstrap_servers)._replace(spark_because=because)
        self._folders.complete(
            manifest, self._extraction.progress_group, staged.records, schema_version=version
        )  # fmt: skip
        return staged

    def _schema_version(self, target: str) -> int:
        """The version of the folder's schema that has this extraction's columns. Raises ExtractionFailed."""
        if self._extraction.format != type_changes.PARQUET:
            return UNKNOWN
        if told := self._refusal_of_types(target):  # the folder may have changed since ``check``
            raise ExtractionFailed(told)
        return self._schemas.record(target, self._written(), partitioning.columns(self._extraction.partition_by))

    def _with_spark(self, manifest: Manifest, tasks: ReadTasks, bootstrap_servers: str) -> Staged:
        frame, counted = self._frames.to_write(tasks, bootstrap_servers)
        terms = () if is_table(self._extraction.format) else self._extraction.partition_by
        writer = frame.write.format(manifest.format).options(**_TEXT_OPTIONS.get(manifest.format, {}))
        if terms:
            writer = writer.partitionBy(*partitioning.columns(terms))
        if publication(manifest.target) is Publication.COPY:  # such a store copies data to rename it: avoid renames
            writer = writer.option(_COMMITTER, "2")
        with (
            file_sizes.aiming_at(self._spark, self._extraction.target_file_bytes),
            session_settings.parquet_times_in_micros(self._spark),
        ):
            writer.save(self._folders.staging(manifest))
        return counted()

    def undecodable(self, tasks: ReadTasks, bootstrap_servers: str) -> Iterator[DeadLetter]:
        """The undecodable records, unchanged; reads the tasks' ranges again."""
        return self._frames.undecodable(tasks, bootstrap_servers)

    def published(self, manifest: Manifest) -> str:
        return self._folders.published(manifest)

    def check_disjoint(self, manifest: Manifest) -> None:
        self._folders.check_disjoint(manifest)

    def is_published(self, manifest: Manifest) -> bool:
        return self._folders.is_published(manifest)

    def publish(self, manifest: Manifest) -> None:
        """Make the range's folder visible, unless it is visible already. Raises ExtractionFailed."""
        self._folders.publish(manifest)

    def discard(self, manifest: Manifest) -> None:
        self._folders.discard(manifest)

    def attempts(self, target: str, prefix: str) -> list[Manifest]:
        """The manifests of the staging folders in ``target`` whose names begin with ``prefix``, including leftovers."""
        return self._folders.attempts(target, prefix)
