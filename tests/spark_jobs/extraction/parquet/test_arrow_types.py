"""Spark's types as Arrow's."""

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from kafka_zk.spark_jobs.extraction.decoding import known_columns
from kafka_zk.spark_jobs.extraction.parquet.arrow_types import arrow_schema, arrow_type
from kafka_zk.spark_jobs.source.schema import arrow_schema as source_schema


def test_the_source_s_columns_are_unchanged() -> None:
    assert arrow_schema(known_columns(None, None)) == source_schema(False)


@pytest.mark.parametrize(
    ("spark", "arrow"),
    [
        (t.DecimalType(20, 3), pa.decimal128(20, 3)),
        (t.ArrayType(t.ShortType()), pa.list_(pa.field("element", pa.int16()))),
        (t.MapType(t.StringType(), t.DateType()), pa.map_(pa.string(), pa.date32())),
        (t.StructType([t.StructField("a", t.TimestampNTZType())]), pa.struct([("a", pa.timestamp("us"))])),
    ],
)
def test_nested_types(spark: t.DataType, arrow: pa.DataType) -> None:
    assert arrow_type(spark) == arrow


@pytest.mark.parametrize("unknown", [t.VariantType(), t.StructType([]), t.ArrayType(t.VariantType())])
def test_types_that_only_spark_writes(unknown: t.DataType) -> None:
    assert arrow_type(unknown) is None
    assert arrow_schema(t.StructType([t.StructField("a", unknown)])) is None
