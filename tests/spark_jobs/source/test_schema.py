"""A user's schema as a choice of columns."""

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from kafka_zk.spark_jobs.errors import OptionError
from kafka_zk.spark_jobs.extraction.decoding import known_columns
from kafka_zk.spark_jobs.source.schema import ddl_of, projection


def test_columns_are_chosen_in_the_order_of_the_schema() -> None:
    wanted = StructType([StructField("offset", LongType()), StructField("partition", IntegerType())])
    assert projection(wanted, False) == ("offset", "partition")


def test_all_columns() -> None:
    every = known_columns(None, None)
    assert projection(every, False) == tuple(every.fieldNames())


def test_a_column_is_neither_unknown_nor_of_another_type() -> None:
    with pytest.raises(OptionError, match="there is no column headers, only key, value"):
        projection(StructType([StructField("headers", StringType())]), False)
    with pytest.raises(OptionError, match="value is binary, not string; use CAST after the read"):
        projection(StructType([StructField("value", StringType())]), False)


def test_definitions_of_columns() -> None:
    assert ddl_of({"offset", "key"}) == "key binary, offset bigint"
    assert ddl_of({"offset", "headers"}) is None
