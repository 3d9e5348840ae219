"""Merges staged change events into a Delta table: one commit, which names the plan.

The table has the columns of --schema, and a struct ``_kafka_zk`` with the row's key, position and state. The states of
deleted keys, and the position of the newest truncate, are in a second Delta table, in the first one's folder
``_kafka_zk_deleted``. It is merged first. A run that dies between the two merges leaves keys in
both; the next run merges the same records, which changes nothing that is there already (``cdc/key_states.py``).

Delta refuses a plan's second merge in each table: ``txnAppId`` and ``txnVersion`` in the session are a transaction of
the application, as for appends. A row that another writer changed since it was read fails the merge.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.functions import coalesce

from kafka_zk.spark_jobs.cdc.changes import Position
from kafka_zk.spark_jobs.errors import ChangeRefused, ExtractionFailed
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.merge import cdc_options
from kafka_zk.spark_jobs.extraction.merge.cdc_options import OWN_COLUMN
from kafka_zk.spark_jobs.extraction.merge.fold_tasks import CHANGES_DDL, ORDERED, FoldChanges, ReadChanges
from kafka_zk.spark_jobs.extraction.merge.key_groups import key_groups
from kafka_zk.spark_jobs.extraction.parquet.arrow_types import arrow_schema
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, DeltaTables, application_of, note_of

DELETED_FOLDER = "_kafka_zk_deleted"
_DELETED_DDL = "key STRING, position ARRAY<BIGINT>, state STRING"
_OWN_TYPE = "STRUCT<key: STRING, position: ARRAY<BIGINT>, state: STRING>"
_TRUNCATE = ""
"""The key under which the second table keeps the position of the newest truncate; no row's key is empty."""
_REFUSED = "ChangeRefused: "
_CHANGED = "kafka-zk: another writer changed the row since it was read"


class MergedDeltaTables(DeltaTables):
    """Delta tables whose rows are those of another database."""

    def __init__(self, spark: Any, extraction: Extraction) -> None:
        super().__init__(spark)
        self._asked = extraction
        self._types = cdc_options.types(extraction)

    def sparks_writer_because(self, target: str, written: Any, extraction: Extraction) -> str | None:
        return "--cdc"

    def prepare(self, target: str, empty: Any, partition_by: Sequence[str]) -> str:
        """Raises ExtractionFailed, before anything is staged."""
        self._make_both(target)
        return target

    def append(self, frame: Any, manifest: Manifest, what: str, extraction: Extraction) -> None:
        """Merge the staged records, or use up the plan's name."""
        if what == FENCE:
            self._fence_both(manifest)
            return
        try:
            self._merge(frame, manifest, what)
        except (PySparkException, Py4JJavaError) as error:
            told = str(error)
            if _REFUSED in told:
                raise ChangeRefused(told.partition(_REFUSED)[2].partition("\n")[0]) from error
            if _CHANGED in told:
                raise ExtractionFailed(
                    f"{manifest.target}: another writer changed rows meanwhile; run it again"
                ) from error
            raise

    def _make_both(self, target: str) -> None:
        """Raises ExtractionFailed for a table of other columns."""
        columns = ", ".join(f"`{name}` {kind.spark}" for name, kind in self._types.items())
        wanted = self._spark.createDataFrame([], f"{columns}, {OWN_COLUMN} {_OWN_TYPE}").schema
        if self._is_table(target):
            self._check_columns(target, wanted)
        self._make_table(_deleted(target), _DELETED_DDL)
        self._make_table(target, wanted)

    def _check_columns(self, target: str, wanted: Any) -> None:
        found = {each.name: each.dataType for each in self._spark.read.format("delta").load(target).schema}
        if OWN_COLUMN not in found:
            raise ExtractionFailed(
                f"{target} has no column {OWN_COLUMN}: --cdc merges only into tables that it created"
            )
        asked = {each.name: each.dataType for each in wanted}
        for name in sorted(found.keys() | asked.keys()):
            if found.get(name) != asked.get(name):
                in_table, in_schema = (_told(each.get(name)) for each in (found, asked))
                raise ExtractionFailed(
                    f"{target}: the column {name} is {in_table} in the table, and {in_schema} in --schema: give the "
                    "table's columns"
                )

    def _make_table(self, target: str, schema: Any) -> None:
        if self._is_table(target):
            return
        try:
            self._spark.createDataFrame([], schema).write.format("delta").mode("append").save(target)
        except (PySparkException, Py4JJavaError):
            if not self._is_table(target):
                raise

    def _fence_both(self, manifest: Manifest) -> None:
        """A table that is absent is created, unless an earlier run appended to a table without --cdc."""
        if not self._is_table(manifest.target):
            self._make_both(manifest.target)
        for target in (_deleted(manifest.target), manifest.target):
            if self._is_table(target):
                self._fence(target, manifest)

    def _fence(self, target: str, manifest: Manifest) -> None:
        empty = self._spark.read.format("delta").load(target).limit(0)
        writer = empty.write.format("delta").mode("append").option("txnAppId", application_of(manifest))
        writer = writer.option("txnVersion", manifest.sequence)
        writer.option("userMetadata", json.dumps(note_of(manifest, FENCE))).save(target)

    def _merge(self, staged: Any, manifest: Manifest, what: str) -> None:
        read = ReadChanges(str(self._asked.cdc), str(self._asked.schema))
        changes = staged.select("topic", "partition", "offset", "key", "value", "headers").mapInArrow(
            read.changes, CHANGES_DDL
        )
        changes = changes.persist()
        try:
            known = self._known(manifest.target)
            rare = changes.where("other IS NOT NULL OR truncated_at IS NOT NULL")
            rows = rare.select("key", "other", "truncated_at").distinct().collect()
            truncate = max((tuple(row.truncated_at) for row in rows if row.truncated_at is not None), default=None)
            truncated_at = self._newest_truncate(manifest.target, truncate)
            pairs = {(row.key, row.other) for row in rows if row.other is not None}
            results = self._folded(changes, known, pairs, truncated_at).persist()
            try:
                newest = None if truncate is None else truncated_at
                with self._named(manifest, what):
                    self._merge_deleted(manifest.target, results, newest)
                    self._merge_rows(manifest.target, results, newest)
            finally:
                results.unpersist()
        finally:
            changes.unpersist()

    def _known(self, target: str) -> Any:
        """The states of both tables: key, state, row."""
        names = ", ".join(f"`{name}`" for name in self._types)
        rows = self._spark.read.format("delta").load(target)
        rows = rows.selectExpr(f"{OWN_COLUMN}.key AS key", f"{OWN_COLUMN}.state AS state", f"struct({names}) AS row")
        deleted = self._spark.read.format("delta").load(_deleted(target))
        return rows.unionByName(deleted.select("key", "state"), allowMissingColumns=True)

    def _newest_truncate(self, target: str, of_changes: Position | None) -> Position | None:
        deleted = self._spark.read.format("delta").load(_deleted(target))
        known = deleted.where(f"key = '{_TRUNCATE}'").selectExpr("max(position) AS position").first().position
        return max((tuple(each) for each in (known, of_changes) if each is not None), default=None)

    def _folded(
        self, changes: Any, known: Any, pairs: set[tuple[str, str]], truncated_at: Position | None
    ) -> Any:  # fmt: skip
        """A row for each key: key, lives, position, state, before, and the columns."""
        keys = changes.where("key IS NOT NULL").select("key").distinct()
        pairs = pairs | self._claims(keys, known, pairs)
        groups = key_groups(sorted(pairs))
        told = self._spark.createDataFrame(sorted(groups.items()), "key STRING, name STRING")
        wanted = keys.union(told.select("key")).distinct()
        states = known.join(wanted, "key", "left_semi").select("key", "state", "row")
        rows = changes.where("key IS NOT NULL").select("key", "partition", "offset", "change")
        rows = rows.unionByName(states, allowMissingColumns=True).join(told.hint("broadcast"), "key", "left")
        rows = rows.withColumn("name", coalesce("name", "key")).select(*ORDERED).repartition("name")
        ordered = rows.sortWithinPartitions("name", "partition", "offset")  # nulls first: states precede changes
        columns = ", ".join(f"`{name}` {kind.spark}" for name, kind in self._types.items())
        ddl = f"key STRING, lives BOOLEAN, position ARRAY<BIGINT>, state STRING, before STRING, {columns}"
        schema = self._spark.createDataFrame([], ddl).schema
        fold = FoldChanges(str(self._asked.schema), arrow_schema(schema), truncated_at)
        return ordered.mapInArrow(fold.folded, schema)

    def _claims(self, keys: Any, known: Any, pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Pairs of old keys and their heirs, and the heirs of these."""
        heir = "get_json_object(state, '$.claim[0]')"
        claiming = known.where(f"{heir} IS NOT NULL").selectExpr("key", f"{heir} AS heir").persist()
        try:
            if not claiming.take(1):
                return set()
            found: set[tuple[str, str]] = set()
            others = {(other,) for pair in pairs for other in pair}
            asked = keys.union(self._spark.createDataFrame(sorted(others), "key STRING"))
            while True:
                rows = claiming.join(asked, "key", "left_semi").collect()
                new = {(row.key, row.heir) for row in rows} - found
                if not new:
                    return found
                found |= new
                asked = self._spark.createDataFrame(sorted({(heir,) for _, heir in new}), "key STRING")
        finally:
            claiming.unpersist()

    def _merge_deleted(self, target: str, results: Any, truncated_at: Position | None) -> None:
        dead = results.where("NOT lives").select("key", "position", "state")
        if truncated_at is not None:
            dead = dead.union(self._spark.createDataFrame([(_TRUNCATE, list(truncated_at), "")], _DELETED_DDL))
        if dead.isEmpty():
            return
        dead.createOrReplaceTempView("kafka_zk_dead")
        self._spark.sql(
            f"MERGE INTO delta.`{_deleted(target)}` AS t USING kafka_zk_dead AS s ON t.key = s.key "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def _merge_rows(self, target: str, results: Any, truncated_at: Position | None) -> None:
        results.createOrReplaceTempView("kafka_zk_results")
        """``truncated_at``: if the changes have a truncate. A run that died may have stored its position, and left the
        older rows.
        """
        names = [f"`{name}`" for name in self._types]
        own = "named_struct('key', s.key, 'position', s.position, 'state', s.state)"
        refuse = f"CAST(raise_error('{_CHANGED}') AS {_OWN_TYPE})"
        updated = ", ".join(f"t.{name} = s.{name}" for name in names)
        inserted = ", ".join(f"s.{name}" for name in names)
        truncate = ""
        if truncated_at is not None:
            position = ", ".join(f"CAST({part} AS BIGINT)" for part in truncated_at)
            truncate = f"WHEN NOT MATCHED BY SOURCE AND t.{OWN_COLUMN}.position <= array({position}) THEN DELETE"
        self._spark.sql(
            f"""
            MERGE INTO delta.`{target}` AS t USING kafka_zk_results AS s ON t.{OWN_COLUMN}.key = s.key
            WHEN MATCHED AND NOT t.{OWN_COLUMN}.state <=> s.before THEN UPDATE SET {OWN_COLUMN} = {refuse}
            WHEN MATCHED AND s.lives THEN UPDATE SET {updated}, t.{OWN_COLUMN} = {own}
            WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED AND s.lives THEN INSERT ({", ".join(names)}, {OWN_COLUMN}) VALUES ({inserted}, {own})
            {truncate}
            """
        )

    @contextmanager
    def _named(self, manifest: Manifest, what: str) -> Iterator[None]:
        """The session's next merges name the plan."""
        settings: Mapping[str, str] = {
            "spark.databricks.delta.write.txnAppId": application_of(manifest),
            "spark.databricks.delta.write.txnVersion": str(manifest.sequence),
            "spark.databricks.delta.commitInfo.userMetadata": json.dumps(note_of(manifest, what)),
        }
        for name, value in settings.items():
            self._spark.conf.set(name, value)
        try:
            yield
        finally:
            for name in settings:
                self._spark.conf.unset(name)


def _deleted(target: str) -> str:
    return f"{target}/{DELETED_FOLDER}"


def _told(kind: Any) -> str:
    return "absent" if kind is None else str(kind.simpleString())
