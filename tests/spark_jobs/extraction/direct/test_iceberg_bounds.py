"""Which columns of a Parquet file have no reliable bounds."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.spark_jobs.extraction.direct.iceberg_bounds import without_bounds

LONG = "z" * 5001
"""Too many bytes for pyarrow to write a bound."""


def with_id(name: str, number: int, kind: Any) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def unsure(kind: Any, *groups: list[Any]) -> list[int]:
    """The columns without reliable bounds, in a file whose second column, a number, has bounds."""
    schema = pa.schema([with_id("column", 1, kind), with_id("number", 9, pa.int64())])
    file = io.BytesIO()
    with pq.ParquetWriter(file, schema, store_schema=False) as writer:
        for values in groups:
            writer.write_table(pa.table([pa.array(values, kind), range(len(values))], schema=schema))
    return without_bounds(pq.read_metadata(file))


@pytest.mark.parametrize("long", [["a", LONG], [LONG, LONG], [None, LONG]])
def test_a_long_value_in_any_row_group_takes_the_bounds(long: list[Any]) -> None:
    """Iceberg would use the bounds of the other row groups, and a query for the long value would find nothing."""
    assert unsure(pa.string(), ["b", "c"], long) == [1]
    assert unsure(pa.string(), long, ["b", "c"]) == [1]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_numbers_with_fractions_have_no_bounds(kind: pa.DataType) -> None:
    """A delete of the rows below a bound would remove the NaN of the same file."""
    assert unsure(kind, [1.0, float("nan")]) == [1]
    assert unsure(kind, [1.0]) == [1]


def test_other_columns_keep_their_bounds() -> None:
    assert unsure(pa.string(), ["b", None], ["a"]) == []
    assert unsure(pa.string(), ["a"], [None, None]) == []


def test_fields_inside_others_are_found_by_their_ids() -> None:
    inner = pa.struct([with_id("x", 2, pa.string()), with_id("y", 3, pa.float32())])
    assert unsure(inner, [{"x": "a", "y": 1.0}], [{"x": LONG, "y": 1.0}]) == [2, 3]
    item = pa.list_(with_id("element", 4, pa.string()))
    assert unsure(item, [["a"]], [["a", LONG]]) == [4]
    pairs = pa.map_(with_id("key", 5, pa.string()).with_nullable(False), with_id("value", 6, pa.float64()))
    assert unsure(pairs, [[("k", 1.0)]]) == [6]
