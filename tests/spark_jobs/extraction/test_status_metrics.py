"""The status of extractions as Prometheus reads it."""

from prometheus_client import generate_latest

from kafka_zk.spark_jobs.extraction.status import GroupStatus, PartitionStatus, RunStatus
from kafka_zk.spark_jobs.extraction.status_metrics import StatusMetrics

RUN = RunStatus("range=t", "committed", "file:/lake", "parquet", 1_000, 5_000, 40)
STATUS = GroupStatus(
    "lake", (PartitionStatus("t", 0, 60, 100, 40), PartitionStatus("t", 1, None, None, None, problem="no leader")), 1,
    RUN, RUN,
)  # fmt: skip


def lines(metrics: StatusMetrics) -> list[str]:
    return generate_latest(metrics.registry).decode().splitlines()


def test_a_status() -> None:
    metrics = StatusMetrics()
    metrics.update(STATUS, 1_795_737_658_000)
    for line in (
        'kafka_zk_extract_status_lag{group="lake",partition="0",topic="t"} 40.0',
        'kafka_zk_extract_status_lag{group="lake",partition="1",topic="t"} NaN',
        'kafka_zk_extract_status_offset{group="lake",partition="0",topic="t"} 60.0',
        'kafka_zk_extract_status_last_range_offsets_per_second{group="lake"} 10.0',
        'kafka_zk_extract_status_last_range_timestamp_seconds{group="lake"} 5.0',
        'kafka_zk_extract_status_unfinished{group="lake"} 1.0',
        'kafka_zk_extract_status_members{group="lake"} 1.0',
        'kafka_zk_extract_status_timestamp_seconds{group="lake"} 1.795737658e+09',
    ):
        assert line in lines(metrics)


def test_a_status_that_cannot_be_read_leaves_only_its_time() -> None:
    metrics = StatusMetrics()
    metrics.update(STATUS, 1_000)
    metrics.update(None, 9_000)
    values = [line for line in lines(metrics) if not line.startswith("#")]
    assert values == ['kafka_zk_extract_status_timestamp_seconds{group="lake"} 1.0']
