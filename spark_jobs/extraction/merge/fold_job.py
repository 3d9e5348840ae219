"""Runs the Spark job that folds staged change events and a table's states into a row for each changed key."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.functions import coalesce

from kafka_zk.spark_jobs.cdc.changes import Position
from kafka_zk.spark_jobs.errors import ChangeRefused, ExtractionFailed
from kafka_zk.spark_jobs.extraction.merge import cdc_options, statements
from kafka_zk.spark_jobs.extraction.merge.cdc_options import OWN_COLUMN
from kafka_zk.spark_jobs.extraction.merge.fold_tasks import CHANGES_DDL, ORDERED, FoldChanges, ReadChanges
from kafka_zk.spark_jobs.extraction.merge.key_groups import key_groups
from kafka_zk.spark_jobs.extraction.parquet.arrow_types import arrow_schema
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.values.schema_registry import registry_at
from kafka_zk.spark_jobs.values.value_decoder import ValueDecoder, avro_as_written

_REFUSED = "ChangeRefused: "


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of folding the changes; the rows are in the views RESULTS and DEAD of ``statements.py``.

    ``truncated_at``: the position of the newest truncate; None if the changes have no truncate. ``has_dead``: DEAD
    has rows.
    """

    truncated_at: Position | None
    has_dead: bool


class FoldJob:
    def __init__(self, spark: Any, asked: Extraction) -> None:
        self._spark = spark
        self._asked = asked
        self._types = cdc_options.types(asked)

    @contextmanager
    def folded(self, staged: Any, rows: Any, deleted: Any) -> Iterator[Folded]:
        """``rows``, ``deleted``: the frames of both tables."""
        read = ReadChanges(str(self._asked.cdc), str(self._asked.schema), self._avro())
        changes = staged.select("topic", "partition", "offset", "key", "value", "headers").mapInArrow(
            read.changes, CHANGES_DDL
        )
        changes = changes.persist()
        try:
            known = self._known(rows, deleted)
            rare = changes.where("other IS NOT NULL OR truncated_at IS NOT NULL")
            found = rare.select("key", "other", "truncated_at").distinct().collect()
            truncate = max((tuple(row.truncated_at) for row in found if row.truncated_at is not None), default=None)
            truncated_at = _newest_truncate(deleted, truncate)
            pairs = {(row.key, row.other) for row in found if row.other is not None}
            results = self._folded(changes, known, pairs, truncated_at).persist()
            try:
                yield self._viewed(results, None if truncate is None else truncated_at)
            finally:
                results.unpersist()
        finally:
            changes.unpersist()

    def _avro(self) -> ValueDecoder | None:
        """The decoder of Avro records; None for JSON. Raises RegistryFailed."""
        url = self._asked.schema_registry
        return None if url is None else avro_as_written(registry_at(url), self._asked.topics[0])

    def _viewed(self, results: Any, truncated_at: Position | None) -> Folded:
        dead = results.where("NOT lives").select("key", "position", "state")
        if truncated_at is not None:
            truncate = [(statements.TRUNCATE, list(truncated_at), "")]
            dead = dead.union(self._spark.createDataFrame(truncate, statements.DELETED_DDL))
        results.createOrReplaceTempView(statements.RESULTS)
        dead.createOrReplaceTempView(statements.DEAD)
        return Folded(truncated_at, not dead.isEmpty())

    def _known(self, rows: Any, deleted: Any) -> Any:
        """The states of both tables: key, state, row."""
        names = ", ".join(statements.quoted(self._types))
        rows = rows.selectExpr(f"{OWN_COLUMN}.key AS key", f"{OWN_COLUMN}.state AS state", f"struct({names}) AS row")
        return rows.unionByName(deleted.select("key", "state"), allowMissingColumns=True)

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
        schema = self._spark.createDataFrame([], statements.results_ddl(self._types)).schema
        fold = FoldChanges(str(self._asked.schema), arrow_schema(schema), truncated_at)
        return ordered.mapInArrow(fold.folded, schema)

    def _claims(self, keys: Any, known: Any, pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Pairs of an old key and its heir. An heir may be an old key, too, so the chain is followed to its end."""
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


def _newest_truncate(deleted: Any, of_changes: Position | None) -> Position | None:
    known = deleted.where(f"key = '{statements.TRUNCATE}'").selectExpr("max(position) AS position").first().position
    return max((tuple(each) for each in (known, of_changes) if each is not None), default=None)


@contextmanager
def refusals(target: str) -> Iterator[None]:
    """Errors that tasks raise as sentences: ChangeRefused, ExtractionFailed."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        told = str(error)
        if _REFUSED in told:
            raise ChangeRefused(told.partition(_REFUSED)[2].partition("\n")[0]) from error
        if statements.CHANGED in told:
            raise ExtractionFailed(f"{target}: another writer changed rows meanwhile; run it again") from error
        raise
