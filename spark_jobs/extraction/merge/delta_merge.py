"""Merges staged change events into a Delta table: one commit, which names the plan.

The second table of ``statements.py`` is in the folder ``_kafka_zk_deleted`` of the first table, and is merged before
it. A run that dies between the two merges leaves keys in both tables. The next run merges the same records again, which
does not change what is already there (``cdc/key_states.py``).

Delta refuses to merge a plan twice into a table, because ``txnAppId`` and ``txnVersion`` in the session name an
application transaction, as for appends. The merge fails if another writer has changed a row since it was read.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_zk.spark_jobs.extraction import session_settings
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.merge import cdc_options, statements
from kafka_zk.spark_jobs.extraction.merge.fold_job import Folded, FoldJob, refusals
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.schemas.type_changes import Fields, TypeChange
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, DeltaTables, application_of, note_of

DELETED_FOLDER = "_kafka_zk_deleted"


class MergedDeltaTables(DeltaTables):
    """Delta tables that mirror the tables of a database."""

    def __init__(self, spark: Any, extraction: Extraction) -> None:
        super().__init__(spark)
        self._types = cdc_options.types(extraction)
        self._topic = extraction.topics[0]
        self._may_widen = extraction.widen
        self._fold = FoldJob(spark, extraction)

    def sparks_writer_because(self, target: str, written: Any, extraction: Extraction) -> str | None:
        return "--cdc"

    def type_changes(self, target: str, written: Any) -> list[TypeChange]:
        """None: ``written`` are the columns of the records, and ``prepare`` compares those of --schema."""
        return []

    def prepare(self, target: str, empty: Any, partition_by: Sequence[str]) -> str:
        """Raises ExtractionFailed for a table with other columns, or of another topic, before anything is staged."""
        if self._is_table(target):
            self._check_topic(target)
        self._make_both(target)
        if self._check_topic(target) is None:
            self._spark.sql(statements.topic_named(f"delta.`{target}`", self._topic))
        return target

    def append(self, frame: Any, manifest: Manifest, what: str, extraction: Extraction) -> None:
        """Merge the staged records, or use up the plan's name."""
        if what == FENCE:
            self._fence_both(manifest)
            return
        with refusals(manifest.target):
            self._merge(frame, manifest, what)

    def _make_both(self, target: str) -> None:
        """Widens types with --widen. Raises ExtractionFailed for a table with other columns."""
        wanted = self._spark.createDataFrame([], statements.table_ddl(self._types)).schema
        if self._is_table(target):
            found = (_fields(self._schema(target)), _fields(wanted))
            self.widen(target, statements.widenings(target, *found, widen=self._may_widen))
        self._make_table(_deleted(target), statements.DELETED_DDL)
        self._make_table(target, wanted)

    def _check_topic(self, target: str) -> str | None:
        """The topic in the table's property; None if it names none. Raises ExtractionFailed for another topic."""
        found = self._topic_of(target)
        statements.check_topic(target, found, self._topic)
        return found

    def _topic_of(self, target: str) -> str | None:
        """Read from Delta's log, because SHOW TBLPROPERTIES hides values in which "token" and the like occur."""
        log = self._spark._jvm.org.apache.spark.sql.delta.DeltaLog
        metadata = log.forTableWithSnapshot(self._spark._jsparkSession, target)._2().metadata()
        settings: dict[str, str] = json.loads(metadata.json())["metaData"].get("configuration", {})
        return settings.get(statements.TOPIC_PROPERTY)

    def _make_table(self, target: str, schema: Any) -> None:
        if self._is_table(target):
            return
        try:
            self._spark.createDataFrame([], schema).write.format("delta").mode("append").save(target)
        except (PySparkException, Py4JJavaError):
            if not self._is_table(target):
                raise

    def _fence_both(self, manifest: Manifest) -> None:
        """Fence the plan in both tables. Absent tables are created, unless an earlier run appended without --cdc. The
        new tables get no topic, because the plan may be that of a run for another topic.
        """
        if not self._is_table(manifest.target):
            self._make_both(manifest.target)
        for target in (_deleted(manifest.target), manifest.target):
            if self._is_table(target):
                self._fence(target, manifest)

    def _fence(self, target: str, manifest: Manifest) -> None:
        empty = self._read(target).limit(0)
        writer = empty.write.format("delta").mode("append").option("txnAppId", application_of(manifest))
        writer = writer.option("txnVersion", manifest.sequence)
        writer.option("userMetadata", json.dumps(note_of(manifest, FENCE))).save(target)

    def _merge(self, staged: Any, manifest: Manifest, what: str) -> None:
        self._check_topic(manifest.target)  # again, because two runs may have found no topic at the same time
        rows, deleted = self._read(manifest.target), self._read(_deleted(manifest.target))
        with self._fold.folded(staged, rows, deleted) as folded, self._named(manifest, what):
            if not folded.has_dead or self._merge_deleted(manifest):
                self._merge_rows(manifest.target, folded)

    def _merge_deleted(self, manifest: Manifest) -> bool:
        """Merge into the second table. False if the plan is fenced there, so that Delta ignored the merge."""
        deleted = _deleted(manifest.target)
        self._spark.sql(statements.into_deleted(f"delta.`{deleted}`"))
        return self.commit_of(replace(manifest, target=deleted)) != FENCE

    def _merge_rows(self, target: str, folded: Folded) -> None:
        self._spark.sql(statements.into_rows(f"delta.`{target}`", self._types, folded.truncated_at))

    def _read(self, target: str) -> Any:
        return self._spark.read.format("delta").load(target)

    @contextmanager
    def _named(self, manifest: Manifest, what: str) -> Iterator[None]:
        """In the block, the session's merges name the plan."""
        settings = {
            "spark.databricks.delta.write.txnAppId": application_of(manifest),
            "spark.databricks.delta.write.txnVersion": str(manifest.sequence),
            "spark.databricks.delta.commitInfo.userMetadata": json.dumps(note_of(manifest, what)),
        }
        with session_settings.set_to(self._spark, settings):
            yield


def _deleted(target: str) -> str:
    return f"{target}/{DELETED_FOLDER}"


def _fields(schema: Any) -> Fields:
    found: Fields = schema.jsonValue()["fields"]
    return found
