"""The Parquet columns of nested fields."""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_zk.spark_jobs.extraction.parquet.leaf_columns import columns, leaf_columns

SCHEMA = pa.schema(
    [
        ("a.b", pa.int64()),
        ("list", pa.list_(pa.field("element", pa.struct([("x", pa.string()), ("y", pa.list_(pa.float32()))])))),
        ("map", pa.map_(pa.string(), pa.map_(pa.int32(), pa.decimal128(9, 2)))),
        ("struct", pa.struct([("x", pa.struct([("y", pa.timestamp("us"))]))])),
    ]
)


def test_leaf_columns_are_those_of_the_file() -> None:
    file = io.BytesIO()
    pq.write_table(SCHEMA.empty_table(), file, store_schema=False)
    parquet = pq.read_metadata(file).schema
    assert [each.path for each in leaf_columns(SCHEMA)] == [parquet.column(n).path for n in range(len(parquet))]
    assert [each.path for each in leaf_columns(parquet.to_arrow_schema())] == [
        each.path for each in leaf_columns(SCHEMA)
    ]


def test_a_field_comes_before_those_inside_it() -> None:
    assert [each.field.name for each in columns(SCHEMA.field("struct").flatten())] == ["struct.x", "y"]
    assert [each.is_leaf for each in columns([SCHEMA.field("struct")])] == [False, False, True]
