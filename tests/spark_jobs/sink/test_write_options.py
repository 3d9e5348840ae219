"""Options and columns of writes that are refused before anything is written."""

from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kafka_zk.spark_jobs.errors import OptionError
from kafka_zk.spark_jobs.sink.write_options import check_columns, parse

SERVERS = {"kafka.bootstrap.servers": "h:9092"}
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def schema(**columns: DataType) -> Any:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_producer_options_pass() -> None:
    options = parse({**SERVERS, "TOPIC": "t", "kafka.linger.ms": "5", "kafka.compression.type": "lz4"})
    assert options.topic == "t" and options.transactional_id_prefix is None
    assert options.producer == {"bootstrap.servers": "h:9092", "linger.ms": "5", "compression.type": "lz4"}


def test_transactions_last_as_long_as_brokers_let_them_by_default() -> None:
    assert parse({**SERVERS, "transactionalIdPrefix": "p"}).producer["transaction.timeout.ms"] == 900_000
    given = {**SERVERS, "transactionalIdPrefix": "p", "kafka.transaction.timeout.ms": "5000"}
    assert parse(given).producer["transaction.timeout.ms"] == "5000"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "kafka.bootstrap.servers or zookeeper.connect is needed"),
        ({**SERVERS, "topics": "t"}, "there is no option topics for writing; did you mean topic?"),
        ({**SERVERS, "kafka.linger": "5"}, "kafka.linger: no such configuration"),
        ({**SERVERS, "kafka.linger.ms": "x"}, "kafka.linger.ms"),
        ({**SERVERS, "kafka.transactional.id": "x"}, "transactionalIdPrefix makes one for each task"),
        ({**SERVERS, "kafka.value.serializer": "x"}, "values are strings or bytes"),
        ({**SERVERS, "transactionalIdPrefix": ""}, "must not be empty"),
        ({**SERVERS, "transactionalIdPrefix": "p", "kafka.acks": "1"}, "transactional.id needs acks=all"),
    ],
)
def test_what_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError, match=told):
        parse(given)


@pytest.mark.parametrize(
    ("columns", "topic", "told"),
    [
        ({"key": StringType()}, "t", "the column 'value' is missing; there are key"),
        ({"value": StringType()}, None, "set the option 'topic', or add a column 'topic'"),
        ({"value": LongType()}, "t", "the column value is bigint, not string or binary"),
        ({"value": StringType(), "partition": LongType()}, "t", "the column partition is bigint, not int"),
        ({"value": StringType(), "headers": StringType()}, "t", "the column headers is string, not array"),
    ],
)
def test_columns_of_other_types(columns: dict[str, Any], topic: str | None, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        check_columns(schema(**columns), topic)


def test_the_columns_of_sparks_sink() -> None:
    check_columns(schema(key=BinaryType(), value=StringType(), topic=StringType(), partition=IntegerType(),
                         headers=ArrayType(HEADER), more=LongType()), None)  # fmt: skip
