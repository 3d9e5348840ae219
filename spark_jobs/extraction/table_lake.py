"""Extractions into tables: one commit of the table appends the staged files and names the plan.

The table ensures that a plan (the manifest's writer and sequence) is committed once, whichever runs try, however often
and however late:

- Delta: the application transaction ``kafka-zk-<writer>`` has the sequence as its version. An append with an existing
  version has no effect, and one of two concurrent ones fails.
- Iceberg: ``<writer>-<sequence>`` is the id of a staged snapshot (write, audit, publish). Iceberg refuses to publish an
  id twice, also when it retries a commit.

``fence`` commits an empty change under the plan's name, so a paused run finds the name used up.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_zk.spark_jobs.errors import ExtractionFailed, WronglyAsked
from kafka_zk.spark_jobs.extraction import partitioning, session_settings
from kafka_zk.spark_jobs.extraction.direct import delta_commit, iceberg_commit
from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile
from kafka_zk.spark_jobs.extraction.file_lake import FileLake
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.manifest import APPLICATION_PREFIX, Manifest
from kafka_zk.spark_jobs.extraction.parquet.task import FileSpec
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks
from kafka_zk.spark_jobs.extraction.schemas.frame_types import changes_of, with_wider_types
from kafka_zk.spark_jobs.extraction.schemas.type_changes import TypeChange, refusal, statement
from kafka_zk.spark_jobs.extraction.spark_failure import first_line
from kafka_zk.spark_jobs.extraction.stores import scheme_of
from kafka_zk.spark_jobs.extraction.table_formats import catalog_and_name, iceberg_name
from kafka_zk.spark_jobs.extraction.undecodable import Staged

RECORDS, FENCE = "records", "fence"
"""Kinds of this project's commits."""
_STAGED_AS = "parquet"
_WIDENS = "delta.enableTypeWidening"


class Tables(Protocol):
    """A manifest's target names a table."""

    def qualified(self, target: str, folders: FileLake) -> str: ...

    def prepare(self, target: str, empty: Any, partition_by: Sequence[str]) -> str:
        """Create the table if needed; returns the folder of its files."""
        ...

    def location(self, target: str) -> str | None: ...

    def commit_of(self, manifest: Manifest) -> str | None:
        """RECORDS or FENCE, or None if there is no commit."""
        ...

    def type_changes(self, target: str, written: Any) -> list[TypeChange]:
        """The changed types of the table's columns; empty if there is no table, or if ``prepare`` compares them.

        ``written``: the extraction's columns, a ``StructType``.
        """
        ...

    def widen(self, target: str, changes: Sequence[TypeChange]) -> None:
        """Widen the types. Raises Spark's errors."""
        ...

    def append(self, frame: Any, manifest: Manifest, what: str, extraction: Extraction) -> None: ...

    def sparks_writer_because(self, target: str, written: Any, extraction: Extraction) -> str | None:
        """Why only Spark's writer can write rows of these columns, a ``StructType``; None if ``add`` can add files."""
        ...

    def file_spec(self, target: str, written: Any) -> FileSpec | None:
        """The file format that ``add`` needs; None if it is the same as for a folder's files."""
        ...

    def add(self, files: Sequence[StagedFile], written: Any, manifest: Manifest, extraction: Extraction) -> None:
        """Commit the executors' files as RECORDS, unless the plan has a commit."""
        ...


class TableLake:
    """Files are staged as for a folder, inside the table's folder."""

    def __init__(self, folders: FileLake, tables: Tables, extraction: Extraction) -> None:
        self._folders = folders
        self._tables = tables
        self._extraction = extraction
        self._of_executors: str | None = None
        """The staging folder that executors filled last."""

    def qualified(self, target: str) -> str:
        return self._tables.qualified(target, self._folders)

    def check(self) -> None:
        """Check the columns and the target. Raises WronglyAsked."""
        self._folders.check_columns()
        target = self.qualified(self._extraction.target)
        try:
            self._tables.location(target)
            told = self._refusal_of(target, self._tables.type_changes(target, self._folders.empty().schema))
        except (PySparkException, Py4JJavaError, ExtractionFailed) as error:
            raise WronglyAsked(f"--to: {first_line(error)}") from error
        if told is not None:
            raise WronglyAsked(told)

    def _refusal_of(self, target: str, changes: Sequence[TypeChange]) -> str | None:
        return refusal(target, changes, widen=self._extraction.widen)

    def _widen(self, target: str, written: Any) -> None:
        """Raises ExtractionFailed if the table has got other types since ``check``; Spark's errors."""
        changes = self._tables.type_changes(target, written)
        if told := self._refusal_of(target, changes):
            raise ExtractionFailed(told)
        self._tables.widen(target, [each for each in changes if each.widens])

    def stage(self, manifest: Manifest, tasks: ReadTasks, bootstrap_servers: str) -> Staged:
        empty = self._folders.empty()
        location = self._tables.prepare(manifest.target, empty, self._extraction.partition_by)
        self._widen(manifest.target, empty.schema)
        because = self._tables.sparks_writer_because(manifest.target, empty.schema, self._extraction)
        needed = self._tables.file_spec(manifest.target, empty.schema) if because is None else because
        staged = self._folders.stage(_beside(manifest, location), tasks, bootstrap_servers, needed)
        self._of_executors = manifest.staging if staged.spark_because is None else None
        return staged

    def published(self, manifest: Manifest) -> str:
        return f"{manifest.target} {manifest.name}"

    def is_published(self, manifest: Manifest) -> bool:
        """Always False, because a table's files are not named by ranges."""
        return False

    def publish(self, manifest: Manifest) -> None:
        """Add the executors' files, or append the rows that Spark staged, unless the table has them.

        Raises ExtractionFailed and Spark's errors.
        """
        location = self._tables.location(manifest.target)
        assert location is not None, "the table was made before the staging"
        beside = _beside(manifest, location)
        if manifest.staging == self._of_executors:
            written = self._folders.empty().schema
            self._tables.add(self._folders.staged_files(beside), written, manifest, self._extraction)
        else:
            self._tables.append(self._folders.staged(beside), manifest, RECORDS, self._extraction)
        if (found := self._tables.commit_of(manifest)) != RECORDS:
            raise ExtractionFailed(f"{manifest.target} has no commit of {manifest.name} (found: {found})")

    def discard(self, manifest: Manifest) -> None:
        if (location := self._tables.location(manifest.target)) is not None:
            self._folders.discard(_beside(manifest, location))

    def in_table(self, manifest: Manifest) -> bool:
        return self._tables.commit_of(manifest) == RECORDS

    def is_fenced(self, manifest: Manifest) -> bool:
        return self._tables.commit_of(manifest) == FENCE

    def fence(self, manifest: Manifest) -> bool:
        """True if the table has the plan's records. A missing table is created, because a paused run could create it
        later.
        """
        if self._tables.location(manifest.target) is None:
            if manifest.target != self.qualified(self._extraction.target):
                return False
            self._tables.prepare(manifest.target, self._folders.empty(), self._extraction.partition_by)
        if self._tables.commit_of(manifest) is None:
            self._tables.append(None, manifest, FENCE, self._extraction)
        return self.in_table(manifest)


def _beside(manifest: Manifest, location: str) -> Manifest:
    return replace(manifest, target=location, format=_STAGED_AS)


def note_of(manifest: Manifest, what: str) -> dict[str, Any]:
    ranges = [[each.topic, each.partition, str(each.from_offset), str(each.until_offset)] for each in manifest.ranges]
    return {"writer": manifest.writer, "sequence": str(manifest.sequence), "what": what, "ranges": ranges}


class DeltaTables:
    """Delta tables, named by their folders."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._files = HadoopFiles(spark)

    def qualified(self, target: str, folders: FileLake) -> str:
        return folders.qualified(target)

    def prepare(self, target: str, empty: Any, partition_by: Sequence[str]) -> str:
        return target

    def location(self, target: str) -> str | None:
        if not self._is_known():
            raise ExtractionFailed("--format delta needs --packages io.delta:delta-spark_<Spark>_2.13:<version>")
        return target

    def _is_known(self) -> bool:
        loader = self._spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return loader.getResource("io/delta/sql/DeltaSparkSessionExtension.class") is not None

    def commit_of(self, manifest: Manifest) -> str | None:
        if not self._is_table(manifest.target):
            return None
        history = self._spark.sql(f"DESCRIBE HISTORY delta.`{manifest.target}`")
        for row in history.select("userMetadata").where("userMetadata IS NOT NULL").collect():
            try:
                note = json.loads(row.userMetadata)
            except ValueError:
                continue  # a commit of another writer
            plan = (manifest.writer, str(manifest.sequence))
            if isinstance(note, dict) and (note.get("writer"), note.get("sequence")) == plan:
                return str(note.get("what"))
        return None

    def append(self, frame: Any, manifest: Manifest, what: str, extraction: Extraction) -> None:
        if frame is None:
            if not self._is_table(manifest.target):
                return
            frame = self._spark.read.format("delta").load(manifest.target).limit(0)
        else:
            frame = partitioning.with_columns(frame, extraction.partition_by)
            self._make(manifest.target, frame.limit(0), extraction)
            frame = with_wider_types(frame, self._schema(manifest.target))
        writer = self._writer(frame, extraction)
        writer = writer.option("txnAppId", application_of(manifest)).option("txnVersion", manifest.sequence)
        writer = writer.option("userMetadata", json.dumps(note_of(manifest, what)))
        if extraction.merge_schema:
            writer = writer.option("mergeSchema", "true")
        with session_settings.parquet_times_in_micros(self._spark):
            writer.save(manifest.target)

    def type_changes(self, target: str, written: Any) -> list[TypeChange]:
        if not self._is_table(target):
            return []
        return changes_of(self._schema(target), written)

    def widen(self, target: str, changes: Sequence[TypeChange]) -> None:
        """Older readers cannot read the table afterwards, because Delta notes the feature ``typeWidening`` in it."""
        if not changes:
            return
        table = f"delta.`{target}`"
        self._spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{_WIDENS}' = 'true')")
        for each in changes:
            self._spark.sql(statement(table, each))

    def _schema(self, target: str) -> Any:
        return self._spark.read.format("delta").load(target).schema

    def sparks_writer_because(self, target: str, written: Any, extraction: Extraction) -> str | None:
        if scheme_of(target) != "file":
            return f"the file system {scheme_of(target)}"
        commit = delta_commit.DeltaCommit(self._spark, target)
        if not self._is_table(target):
            return commit.refusal_of_new_table()
        return commit.refusal_of_table(delta_columns(written, extraction))

    def file_spec(self, target: str, written: Any) -> FileSpec | None:
        return None

    def add(self, files: Sequence[StagedFile], written: Any, manifest: Manifest, extraction: Extraction) -> None:
        empty = self._spark.createDataFrame([], written)
        self._make(manifest.target, partitioning.with_columns(empty, extraction.partition_by), extraction)
        delta_commit.DeltaCommit(self._spark, manifest.target).add(
            files, delta_columns(written, extraction), self._transactions(manifest),
            json.dumps(note_of(manifest, RECORDS)),
        )  # fmt: skip

    def _transactions(self, manifest: Manifest) -> delta_commit.Transactions:
        return delta_commit.Plan(application_of(manifest), manifest.sequence)

    def _make(self, target: str, empty: Any, extraction: Extraction) -> None:
        """Create the table in a separate commit, because Delta refuses one of two appends that each create it."""
        if self._is_table(target):
            return
        try:
            self._writer(empty, extraction).save(target)
        except (PySparkException, Py4JJavaError):
            if not self._is_table(target):
                raise

    def _writer(self, frame: Any, extraction: Extraction) -> Any:
        writer = frame.write.format("delta").mode("append")
        names = partitioning.columns(extraction.partition_by)
        return writer.partitionBy(*names) if names else writer

    def _is_table(self, target: str) -> bool:
        """True if the log has a commit. Staged files, or the empty log folder of another run's first commit, are not a
        table."""
        return any(path.endswith((".json", ".parquet")) for path, _ in self._files.walk(f"{target}/_delta_log"))


def application_of(manifest: Manifest) -> str:
    return f"{APPLICATION_PREFIX}{manifest.writer}"


def delta_columns(written: Any, extraction: Extraction) -> delta_commit.Columns:
    return delta_commit.Columns(written, partitioning.columns(extraction.partition_by))


class IcebergTables:
    """Iceberg tables, named by catalog, namespaces and table."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._files = HadoopFiles(spark)

    def qualified(self, target: str, folders: FileLake) -> str:
        return iceberg_name(target)

    def prepare(self, target: str, empty: Any, partition_by: Sequence[str]) -> str:
        if self.location(target) is None:
            terms = partitioning.iceberg_terms(partition_by)
            writer = empty.writeTo(target).using("iceberg").tableProperty("write.wap.enabled", "true")
            try:
                (writer.partitionedBy(*terms) if terms else writer).create()
            except (PySparkException, Py4JJavaError):
                if self.location(target) is None:  # otherwise another run has created it
                    raise
        location = self.location(target)
        assert location is not None, "it was made"
        return location

    def location(self, target: str) -> str | None:
        check_catalog(self._spark, target)
        if not self._spark.catalog.tableExists(target):
            return None
        rows = self._spark.sql(f"DESCRIBE TABLE EXTENDED {target}").where("col_name = 'Location'").collect()
        return self._files.qualified(str(rows[0].data_type))

    def commit_of(self, manifest: Manifest) -> str | None:
        if self.location(manifest.target) is None:
            return None
        wanted = wap_id(manifest)
        summaries = {row.snapshot_id: row.summary for row in self._table(manifest, "snapshots").collect()}
        history = self._table(manifest, "history").where("is_current_ancestor").collect()
        for row in history:
            summary = summaries.get(row.snapshot_id, {})
            if wanted not in (summary.get("wap.id"), summary.get("published-wap-id")):
                continue
            source = summaries.get(int(summary.get("source-snapshot-id", row.snapshot_id)), summary)
            if (what := source.get("kafka-zk.what")) is None:
                raise ExtractionFailed(f"{manifest.target}: the snapshot of {wanted} was expired too early")
            return str(what)
        return None

    def append(self, frame: Any, manifest: Manifest, what: str, extraction: Extraction) -> None:
        target = manifest.target
        table = self._spark.table(target)
        frame = table.limit(0) if frame is None else with_wider_types(frame, table.schema)
        properties = {"write.wap.enabled": "true"}
        if extraction.merge_schema:
            properties["write.spark.accept-any-schema"] = "true"
        told = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        self._spark.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ({told})")
        self._spark.conf.set("spark.wap.id", wap_id(manifest))
        try:
            writer = frame.writeTo(target)
            for name, text in summary_of(manifest, what).items():
                writer = writer.option(f"snapshot-property.{name}", text)
            if extraction.merge_schema:
                writer = writer.option("mergeSchema", "true").option("check-ordering", "false")
            writer.append()
        finally:
            self._spark.conf.unset("spark.wap.id")
        self._publish(manifest, what)

    def type_changes(self, target: str, written: Any) -> list[TypeChange]:
        if self.location(target) is None:
            return []
        return changes_of(self._spark.table(target).schema, written)

    def widen(self, target: str, changes: Sequence[TypeChange]) -> None:
        for each in changes:
            self._spark.sql(statement(target, each))

    def sparks_writer_because(self, target: str, written: Any, extraction: Extraction) -> str | None:
        return iceberg_commit.IcebergCommit(self._spark, target).refusal(written, extraction.partition_by)

    def file_spec(self, target: str, written: Any) -> FileSpec | None:
        return iceberg_commit.IcebergCommit(self._spark, target).file_spec(written)

    def add(self, files: Sequence[StagedFile], written: Any, manifest: Manifest, extraction: Extraction) -> None:
        summary = {**summary_of(manifest, RECORDS), "wap.id": wap_id(manifest)}
        iceberg_commit.IcebergCommit(self._spark, manifest.target).stage(
            files, written, extraction.partition_by, summary
        )
        self._publish(manifest, RECORDS)

    def _publish(self, manifest: Manifest, what: str) -> None:
        """Publish the staged snapshot. Raises Iceberg's errors, unless the plan has a commit."""
        staged = self._table(manifest, "snapshots").orderBy("committed_at", ascending=False).collect()
        ours = {"kafka-zk.attempt": manifest.attempt, "kafka-zk.what": what, "wap.id": wap_id(manifest)}
        snapshot = next(row.snapshot_id for row in staged if ours.items() <= row.summary.items())
        catalog, name = catalog_and_name(manifest.target)
        try:
            self._spark.sql(f"CALL {catalog}.system.cherrypick_snapshot('{name}', {snapshot})").collect()
        except Exception:
            if self.commit_of(manifest) is None:
                raise

    def _table(self, manifest: Manifest, name: str) -> Any:
        return self._spark.sql(f"SELECT * FROM {manifest.target}.{name}")


def summary_of(manifest: Manifest, what: str) -> dict[str, str]:
    """Properties of a snapshot."""
    note = {**note_of(manifest, what), "attempt": manifest.attempt}
    return {f"kafka-zk.{name}": text if isinstance(text, str) else json.dumps(text) for name, text in note.items()}


def check_catalog(spark: Any, target: str) -> None:
    """Raises ExtractionFailed without a configured catalog of this name; Spark would look in its own catalog."""
    catalog, _ = catalog_and_name(target)
    key = f"spark.sql.catalog.{catalog.strip('`')}"
    if spark.conf.get(key, None) is None:
        raise ExtractionFailed(
            f"no catalog {catalog} is configured: --conf {key}=org.apache.iceberg.spark.SparkCatalog, {key}.type "
            "and so on say which catalog it is"
        )


def wap_id(manifest: Manifest) -> str:
    return f"{manifest.writer}-{manifest.sequence}"
