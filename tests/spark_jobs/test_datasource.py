"""What the data source says when it is used wrongly, as far as it can be seen without Spark."""

import traceback
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.readwriter import DataFrameWriter

from kafka_zk.spark_jobs.datasource import KafkaZkDataSource
from kafka_zk.spark_jobs.errors import DataLoss, OptionError, SourceError
from kafka_zk.spark_jobs.range_partition import RangePartition, read_range
from kafka_zk.spark_jobs.read_only import refuse_writes


def shown(error: BaseException) -> list[str]:
    """As a Python worker of Spark shows it."""
    return "".join(traceback.format_exception(error)).splitlines()


@pytest.mark.parametrize("ask", [DataSource.reader, DataSource.streamReader], ids=["batch", "stream"])
def test_the_reason_stands_before_the_traceback(ask: Any) -> None:
    source = KafkaZkDataSource({"subscribe": "t", "kafka.bootstrap.servers": "h:1", "startingOffset": "earliest"})
    with pytest.raises(OptionError) as raised:
        getattr(source, ask.__name__)(None)
    lines = shown(raised.value)
    assert lines[0] == (
        "kafka_zk.spark_jobs.errors.OptionError: there is no option startingOffset; did you mean startingOffsets?"
    )
    assert lines[-1] == lines[0], "where spark_failure.reason looks for it"


def test_that_of_a_task_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_: object) -> Any:
        yield "batch"
        raise DataLoss("offsets 0 to 19 of t-0 are gone")

    monkeypatch.setattr("kafka_zk.spark_jobs.range_partition._range_fetcher", lambda: fetch)
    batches = read_range(RangePartition(None, None))  # type: ignore[arg-type]
    assert next(batches) == "batch"
    with pytest.raises(SourceError) as raised:
        next(batches)
    assert shown(raised.value)[0] == "kafka_zk.spark_jobs.errors.DataLoss: offsets 0 to 19 of t-0 are gone"


@pytest.mark.parametrize("ask", ["writer", "streamWriter"])
def test_it_reads_only_and_says_what_writes(ask: str) -> None:
    source = KafkaZkDataSource({})
    with pytest.raises(OptionError, match=r'reads only; to write .* use .*\.write\.format\("kafka"\)'):
        getattr(source, ask)(None, False)


def test_a_write_in_sparks_default_mode_is_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DataFrameWriter, "format", lambda writer, source: source)
    refuse_writes()
    refuse_writes()
    with pytest.raises(OptionError, match="reads only"):
        DataFrameWriter.format(None, "Kafka_ZK")  # type: ignore[arg-type]
    assert DataFrameWriter.format(None, "parquet") == "parquet"  # type: ignore[arg-type, comparison-overlap]
