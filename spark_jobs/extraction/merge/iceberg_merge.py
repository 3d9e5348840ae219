"""Merges staged change events into an Iceberg table: one commit, which names the plan, published by fast-forward.

The second table of ``statements.py`` is TABLE_kafka_zk_deleted beside the first. Both are merged in the same way
(write, audit, publish), the second table first:

    1. note the table's head, and stop if the plan is in its history
    2. read both tables as they are at their heads, and fold
    3. merge into a branch of this attempt, made from the head
    4. main becomes the branch's commit, if it is still the head; otherwise begin again on the new head

Iceberg compares and sets the head, so the plan is in the history once, whatever other writers do. A run that dies
leaves its branch, which the group's next merge removes. If it dies between the two merges, deleted keys are in both
tables. The next run merges the same records again, which does not change what is already there (``cdc/key_states.py``).

The second table's commits do not name the plan. If that table's head has moved, a paused run publishes nothing in it;
if the head has not moved, the states that the paused run adds are older than those of the rows.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import methodcaller
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import session_settings
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.merge import cdc_options, statements
from kafka_zk.spark_jobs.extraction.merge.fold_job import Folded, FoldJob, refusals
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.schemas.type_changes import Fields, TypeChange
from kafka_zk.spark_jobs.extraction.table_formats import with_suffix
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, IcebergTables, summary_of, wap_id

DELETED_SUFFIX = "_kafka_zk_deleted"
_MAIN = "main"
_HEADS_MAX = 10
"""Maximum number of attempts if other writers change the table during each merge."""
_COMMITS_MAX = 10
_CONFLICT = "CommitFailedException"
"""Another commit has changed the table's metadata."""
_ERRORS = (PySparkException, Py4JJavaError)
"""PySpark converts some of Java's errors."""
_PROPERTY = "spark.sql.iceberg.snapshot-property."
_OF_NEW_TABLES = {"format-version": "2", "write.wap.enabled": "true", "write.merge.mode": "merge-on-read"}
_SMALL_INTEGERS = ("byte", "short")
"""Types that Iceberg does not have; its tables have INT instead."""


class MergedIcebergTables(IcebergTables):
    """Iceberg tables that mirror the tables of a database."""

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
        wanted = self._spark.createDataFrame([], statements.table_ddl(self._types))
        if self.location(target) is not None:
            self._check_topic(target)
            found = (_fields(self._spark.table(target).schema), _fields(wanted.schema))
            self.widen(target, statements.widenings(target, *found, widen=self._may_widen))
        self._make(_deleted(target), self._spark.createDataFrame([], statements.DELETED_DDL), {})
        self._make(target, wanted, {statements.TOPIC_PROPERTY: self._topic})
        if self._check_topic(target) is None:
            self._spark.sql(statements.topic_named(target, self._topic))
        location = self.location(target)
        assert location is not None, "it was made"
        return location

    def append(self, frame: Any, manifest: Manifest, what: str, extraction: Extraction) -> None:
        """Merge the staged records, or use up the plan's name."""
        if what == FENCE:
            super().append(None, manifest, what, extraction)
            return
        with refusals(manifest.target):
            self._merge(frame, manifest, what)

    def _check_topic(self, target: str) -> str | None:
        """The topic in the table's property; None if it names none. Raises ExtractionFailed for another topic."""
        found = _loaded(self._spark, target).properties().get(statements.TOPIC_PROPERTY)
        statements.check_topic(target, found, self._topic)
        return None if found is None else str(found)

    def _make(self, target: str, empty: Any, properties: Mapping[str, str]) -> None:
        """The new table has a commit without rows, so that it has a head."""
        if self.location(target) is not None:
            return
        writer = empty.writeTo(target).using("iceberg")
        for name, value in {**_OF_NEW_TABLES, **properties}.items():
            writer = writer.tableProperty(name, value)
        try:
            writer.create()
        except _ERRORS:
            if self.location(target) is None:  # otherwise another run has created it
                raise

    def _merge(self, staged: Any, manifest: Manifest, what: str) -> None:
        self._check_topic(manifest.target)  # again, because two runs may have found no topic at the same time
        for _ in range(_HEADS_MAX):
            rows, deleted = (_Branch(self._spark, each, manifest) for each in _both(manifest.target))
            if self.commit_of(manifest) is not None:
                return
            with self._fold.folded(staged, rows.at_head(), deleted.at_head()) as folded:
                if self._merge_deleted(deleted, folded, what) and self._merge_rows(rows, folded, what):
                    return
        raise ExtractionFailed(
            f"{manifest.target}: another writer has committed during each of {_HEADS_MAX} merges; run it again"
        )

    def _merge_deleted(self, deleted: "_Branch", folded: Folded, what: str) -> bool:
        return not folded.has_dead or deleted.publish(statements.into_deleted(deleted.name), what)

    def _merge_rows(self, rows: "_Branch", folded: Folded, what: str) -> bool:
        return rows.publish(statements.into_rows(rows.name, self._types, folded.truncated_at), what)


class _Branch:
    """An attempt's branch of a table, from the head of main that it finds."""

    def __init__(self, spark: Any, target: str, manifest: Manifest) -> None:
        self._spark = spark
        self._target = target
        self._manifest = manifest
        self._group = f"kafka_zk_{manifest.writer}_"
        self._branch = f"{self._group}{manifest.attempt}"
        self._head = self._head_now()

    @property
    def name(self) -> str:
        return f"{self._target}.branch_{self._branch}"

    def at_head(self) -> Any:
        return self._spark.sql(f"SELECT * FROM {self._target} VERSION AS OF {self._head}")

    def publish(self, statement: str, what: str) -> bool:
        """Run the statement on the branch and make it main's head; False if another writer has moved the head."""
        self._remove_branches()
        self._alter(methodcaller("createBranch", self._branch, self._head))
        try:
            with session_settings.set_to(self._spark, self._properties(what)):
                self._spark.sql(statement)
            merged = self._loaded().snapshot(self._branch)
            is_ours = bool(merged is not None and merged.parentId() == self._head)
            return is_ours and self._fast_forward(merged.snapshotId())
        finally:
            self._remove_branches()

    def _fast_forward(self, merged: int) -> bool:
        try:
            self._alter(methodcaller("fastForwardBranch", _MAIN, self._branch))
        except _ERRORS:
            if (head := self._head_now()) == self._head:
                raise
            return head == merged  # True if only the catalog's response was lost
        return True

    def _head_now(self) -> int:
        """Raises ExtractionFailed for a table without a commit, which --cdc did not create."""
        if (head := self._loaded().currentSnapshot()) is None:
            raise ExtractionFailed(f"{self._target} has no snapshot: --cdc merges only into tables that it created")
        return int(head.snapshotId())

    def _remove_branches(self) -> None:
        """Remove this run's branch, and those of the group's dead runs. If a paused run loses its branch, it publishes
        nothing."""
        for name in list(self._loaded().refs().keySet()):
            if name.startswith(self._group):
                with suppress(*_ERRORS):  # the next merge removes it
                    self._alter(methodcaller("removeBranch", name))

    def _alter(self, change: Callable[[Any], Any]) -> None:
        """Change the references to snapshots, even if another writer commits at the same time."""
        for left in reversed(range(_COMMITS_MAX)):
            try:
                change(self._loaded().manageSnapshots()).commit()
                return
            except _ERRORS as error:
                if left == 0 or _CONFLICT not in str(error):
                    raise

    def _loaded(self) -> Any:
        return _loaded(self._spark, self._target)

    def _properties(self, what: str) -> Mapping[str, str]:
        summary = {**summary_of(self._manifest, what), "wap.id": wap_id(self._manifest)}
        return {f"{_PROPERTY}{name}": text for name, text in summary.items()}


def _loaded(spark: Any, target: str) -> Any:
    """Spark's own table object, refreshed, because Spark would not see the commits of another object."""
    load = spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable
    table = load(spark._jsparkSession, target)
    table.refresh()
    return table


def _both(target: str) -> tuple[str, str]:
    return target, _deleted(target)


def _deleted(target: str) -> str:
    return with_suffix(target, DELETED_SUFFIX)


def _fields(schema: Any) -> Fields:
    fields = schema.jsonValue()["fields"]
    return [{**each, "type": "integer" if each["type"] in _SMALL_INTEGERS else each["type"]} for each in fields]
