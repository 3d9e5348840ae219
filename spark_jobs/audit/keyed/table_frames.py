"""Opens a merged table as a DataFrame, by its folder or address, or by its name in a catalog."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_zk.spark_jobs.audit import iceberg_table
from kafka_zk.spark_jobs.audit.delta_table import LOG
from kafka_zk.spark_jobs.audit.repairs import quoted
from kafka_zk.spark_jobs.audit.stored_files import StoredFiles
from kafka_zk.spark_jobs.errors import AuditFailed
from kafka_zk.spark_jobs.extraction.merge.cdc_options import OWN_COLUMN
from kafka_zk.spark_jobs.extraction.spark_failure import first_line

PARQUET = "parquet"


class TableFrame:
    """``frame``: all rows of one version of the table. ``name``: the table's name in SQL, empty if it has none.
    ``key``: its key columns. ``compared``: its other columns with single values; only those in ``asked``, if that is
    not None. ``nested``: the columns with nested values, which are not compared. ``has_ranks``: True if the table
    stores the event of each row.

    Raises AuditFailed.
    """

    def __init__(
        self, frame: Any, format: str, name: str, key: Sequence[str], asked: Sequence[str] | None = None
    ) -> None:  # fmt: skip
        from pyspark.sql.types import AtomicType, VariantType

        self.frame = frame
        self.format = format
        self.name = name
        self.key = tuple(key)
        types = {field.name: field.dataType for field in frame.schema}
        for option, wanted in (("--key", key), ("--schema", asked or ())):
            if absent := [each for each in wanted if each not in types]:
                raise AuditFailed(f"{option}: the table has no column {absent[0]}, only {', '.join(types)}")
        self.has_ranks = OWN_COLUMN in types
        names = [each for each in (types if asked is None else asked) if each not in (*key, OWN_COLUMN)]
        plain = {
            each for each in names if isinstance(types[each], AtomicType) and not isinstance(types[each], VariantType)
        }
        self.compared = [each for each in names if each in plain]
        self.nested = [each for each in names if each not in plain]

    def key_types(self) -> dict[str, str]:
        return {each: self.frame.schema[each].dataType.simpleString() for each in self.key}

    def rows(self) -> Any:
        """The structs ``key_columns`` and ``row``, and the column ``row_rank``."""
        key = ", ".join(map(quoted, self.key))
        compared = ", ".join(map(quoted, self.compared)) or "0 AS nothing"
        return self.frame.selectExpr(
            f"struct({key}) AS key_columns", f"struct({compared}) AS row", f"{self._rank()} AS row_rank"
        )

    def duplicates(self) -> Any:
        """The keys that several rows have: ``key``, as JSON, and ``count``."""
        from pyspark.sql.functions import expr

        key = ", ".join(map(quoted, self.key))
        counts = self.frame.groupBy(*(expr(quoted(each)) for each in self.key)).count().where("count > 1")
        return counts.selectExpr(f"to_json(struct({key})) AS key", "count")

    def _rank(self) -> str:
        """The rank of the row's event: its position, or its offset if events have no positions."""
        if not self.has_ranks:
            return "CAST(NULL AS ARRAY<BIGINT>)"
        offset = f"CAST(get_json_object({OWN_COLUMN}.state, '$.seen[1]') AS BIGINT)"
        return f"IF(size({OWN_COLUMN}.position) > 0, {OWN_COLUMN}.position, array({offset}))"


def opened(spark: Any, address: str) -> tuple[Any, str, str]:
    """The frame, the format and the name in SQL. Raises AuditFailed."""
    from pyspark.errors import PySparkException

    try:
        if "/" not in address and "." in address and not Path(address).exists():
            return _of_catalog(spark, address), "table", address
        stored = StoredFiles(address)
        place = address if "://" in address else stored.root
        if any(True for _ in stored.listed(f"{stored.root}/{LOG}")):
            return _of_delta(spark, f"delta.`{place}`"), "delta", f"delta.`{place}`"
        if iceberg_table.metadata_file(stored) is not None:
            return spark.read.format("iceberg").load(place), "iceberg", f"CATALOG.NAMESPACE.{Path(place).name}"
        return spark.read.parquet(place), PARQUET, ""
    except PySparkException as error:
        raise AuditFailed(f"{address} cannot be read: {first_line(error)}") from error


def _of_catalog(spark: Any, name: str) -> Any:
    frame = spark.table(name)
    provider = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").where("col_name = 'Provider'").first()
    return _of_delta(spark, name) if provider is not None and provider.data_type == "delta" else frame


def _of_delta(spark: Any, name: str) -> Any:
    """The table at its newest version. Without a fixed version, each query of the frame would read the version that is
    newest at that time."""
    version = spark.sql(f"DESCRIBE HISTORY {name}").selectExpr("max(version) AS newest").first().newest
    return spark.sql(f"SELECT * FROM {name} VERSION AS OF {version}")
