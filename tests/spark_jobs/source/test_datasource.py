"""The data source's errors for wrong usage, as far as they can be tested without Spark."""

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.util import handle_worker_exception

from kafka_zk.spark_jobs.errors import DataLoss, OptionError, SourceError
from kafka_zk.spark_jobs.extraction.spark_failure import reason
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings
from kafka_zk.spark_jobs.source.datasource import KafkaZkDataSource
from kafka_zk.spark_jobs.source.range_partition import RangePartition, read_range
from kafka_zk.spark_jobs.source.range_settings import FetchSettings

SETTINGS = FetchSettings(ClientSettings("127.0.0.1:1"))


@pytest.fixture(autouse=True)
def hide_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the worker's environment after each test."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")


def shown(work: Callable[[], object]) -> str:
    """The error as a Python worker of Spark reports it."""
    reported = io.BytesIO()
    try:
        work()
    except SourceError as error:
        handle_worker_exception(error, reported)
    return reported.getvalue()[8:].decode()


def test_an_error_is_its_reason() -> None:
    """A stream raises the error when offsets are requested, because PySpark hides errors of ``streamReader``."""
    source = KafkaZkDataSource({"subscribe": "t", "kafka.bootstrap.servers": "h:1", "startingOffset": "earliest"})
    stream = source.streamReader(None)
    stream.stop()
    asked: list[Callable[[], object]] = [
        lambda: source.reader(None), stream.initialOffset, lambda: stream.latestOffset({}, None)
    ]  # fmt: skip
    assert {shown(each) for each in asked} == {
        "kafka_zk.spark_jobs.errors.OptionError: there is no option startingOffset; did you mean startingOffsets?\n"
    }


def test_a_stream_refuses_a_wrong_schema_when_it_is_asked_for_offsets() -> None:
    source = KafkaZkDataSource({"subscribe": "t", "kafka.bootstrap.servers": "h:1"})
    stream = source.streamReader(StructType([StructField("price", LongType())]))
    assert "schema: there is no column price, only key, value," in shown(stream.initialOffset)


def test_that_of_a_task_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object) -> Any:
        yield "batch"
        raise DataLoss("offsets 0 to 19 of t-0 are gone")

    monkeypatch.setattr("kafka_zk.spark_jobs.source.range_partition._fetch", lambda: fetch)
    batches = read_range(RangePartition((), SETTINGS))
    assert next(batches) == "batch"
    told = shown(lambda: next(batches))
    assert told == "kafka_zk.spark_jobs.errors.DataLoss: offsets 0 to 19 of t-0 are gone\n"
    assert reason(Exception(f"[X] Failed to do it: {told} SQLSTATE: 38000")) == "offsets 0 to 19 of t-0 are gone"


def test_a_task_returns_the_columns_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.RecordBatch.from_pydict({"key": [b"k"], "offset": [7], "partition": [0]})
    monkeypatch.setattr("kafka_zk.spark_jobs.source.range_partition._fetch", lambda: lambda *_: iter([batch]))
    wanted = SETTINGS._replace(columns=("partition", "offset"))
    (found,) = read_range(RangePartition((), wanted))
    assert found.to_pydict() == {"partition": [0], "offset": [7]}


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(OptionError, match="a topic cannot be overwritten: write with mode append"):
        KafkaZkDataSource({}).writer(None, overwrite=True)
