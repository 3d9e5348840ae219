"""The types to which a frame's columns are cast; the frame is in memory. With Spark: tests/peers/spark."""

from typing import Any

from pyspark.sql.types import StructType

from kafka_zk.spark_jobs.extraction.schemas.frame_types import with_wider_types
from tests.spark_jobs.extraction.schemas.test_type_changes import array, struct


class Column:
    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def cast(self, kind: Any) -> "Column":
        return Column(kind)


class Frame:
    """Like a DataFrame, with the casts that it was asked for."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self.casts: dict[str, str] = {}

    def __getitem__(self, quoted: str) -> Column:
        return Column(self.schema[quoted.strip("`")].dataType)

    def withColumn(self, name: str, column: Column) -> "Frame":
        self.casts[name] = column.kind.simpleString()
        return self


def casts(written: dict[str, Any], table: dict[str, Any]) -> dict[str, str]:
    found: Frame = with_wider_types(Frame(StructType.fromJson(written)), StructType.fromJson(table))
    return found.casts


def test_only_narrower_columns_are_cast() -> None:
    written = struct(a="integer", b="string", c="decimal(9,2)", d="long")
    table = struct(a="long", b="string", c="decimal(20,2)", d="long", e="date")
    assert casts(written, table) == {"a": "bigint", "c": "decimal(20,2)"}


def test_the_fields_of_a_struct_keep_their_places() -> None:
    """Spark casts structs by place: to the table's struct, ``x`` would get the values of ``y``."""
    written = struct(a=struct(y="integer", x="integer"), b=array(struct(y="float", x="string")))
    table = struct(a=struct(x="long", y="long", z="date"), b=array(struct(x="string", y="double")))
    assert casts(written, table) == {"a": "struct<y:bigint,x:bigint>", "b": "array<struct<y:double,x:string>>"}
