"""Where an extraction goes: Spark writes the staging folder, a rename publishes it.

The folders are in Hadoop's file systems as Spark sees them: local disks, HDFS, whatever renames a folder atomically.
Object stores do not: publish to HDFS there, or let a table format do the commit (docs/spark.md).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError

from kafka_zk.spark_jobs.extraction.dead_letters import DeadLetter
from kafka_zk.spark_jobs.extraction.errors import ExtractionFailed, WronglyAsked
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.progress import JobProgress, Progress
from kafka_zk.spark_jobs.extraction.record_frames import RecordFrames
from kafka_zk.spark_jobs.extraction.spark_failure import first_line
from kafka_zk.spark_jobs.extraction.undecodable import Staged
from kafka_zk.spark_jobs.offset_ranges import OffsetRange


class SparkLake:
    """One run's writer. Every manifest says its own target, so that of an earlier run is found too."""

    def __init__(self, spark: Any, extraction: Extraction, progress: Progress) -> None:
        self._spark = spark
        self._extraction = extraction
        self._progress = progress
        self._frames = RecordFrames(spark, extraction)

    def qualified(self, folder: str) -> str:
        """The folder as an absolute URI."""
        return str(self._files(folder).makeQualified(self._path(folder)).toString()).rstrip("/")

    def check(self) -> None:
        """Before anything is begun. Raises: WronglyAsked."""
        self._check_target()
        self._frames.check()

    def _check_target(self) -> None:
        target = self._extraction.target
        try:
            path = self._path(target)
            files = self._files(target)
            if files.exists(path) and not files.getFileStatus(path).isDirectory():
                raise WronglyAsked(f"{target} is a file, not a folder")
        except Py4JJavaError as error:
            raise WronglyAsked(f"{target}: {first_line(error)}") from error

    def stage(self, manifest: Manifest, pieces: Sequence[OffsetRange], bootstrap_servers: str) -> Staged:
        """Write the records of the manifest's ranges to its staging folder; returns what was written.

        ``pieces`` are the ranges of the tasks, for the progress.
        """
        self._progress(0, sum(piece.size for piece in pieces))  # Spark takes seconds before its first task begins
        frame, counted = self._frames.to_write(manifest.ranges, bootstrap_servers)
        writer = frame.write.format(manifest.format)
        if self._extraction.partition_by:
            writer = writer.partitionBy(*self._extraction.partition_by)
        staging = self._staging(manifest)
        with JobProgress(self._spark, staging, pieces, self._progress):
            writer.save(staging)
        return counted()

    def undecodable(self, manifest: Manifest, bootstrap_servers: str) -> Iterator[DeadLetter]:
        """The records of the manifest's ranges that cannot be decoded, as they are; they are read again for it."""
        return self._frames.undecodable(manifest.ranges, bootstrap_servers)

    def published(self, manifest: Manifest) -> str:
        return f"{manifest.target}/{manifest.name}"

    def is_published(self, manifest: Manifest) -> bool:
        folder = self.published(manifest)
        return bool(self._files(folder).exists(self._path(folder)))

    def publish(self, manifest: Manifest) -> None:
        """Rename the staging folder to the range's name; done before, it does nothing. Raises: ExtractionFailed."""
        if self.is_published(manifest):
            return
        source, target = self._staging(manifest), self.published(manifest)
        files = self._files(source)
        if not files.exists(self._path(source)):
            raise ExtractionFailed(f"the offsets of {manifest.name} have moved, but its folder {source} is not there")
        if not files.rename(self._path(source), self._path(target)):
            raise ExtractionFailed(f"{source} could not be renamed to {target}")

    def discard(self, manifest: Manifest) -> None:
        """Remove the staging folder, if it is there."""
        staging = self._staging(manifest)
        self._files(staging).delete(self._path(staging), True)

    def _staging(self, manifest: Manifest) -> str:
        return f"{manifest.target}/{manifest.staging}"

    def _files(self, folder: str) -> Any:
        return self._path(folder).getFileSystem(self._spark._jsc.hadoopConfiguration())

    def _path(self, text: str) -> Any:
        return self._spark._jvm.org.apache.hadoop.fs.Path(text)
