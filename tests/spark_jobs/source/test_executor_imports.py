"""A process that only fetches loads no reactor, no ZooKeeper client, and no pyspark session."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_PROGRAM = """
import sys
import kafka_zk.spark_jobs.extraction.parquet.job
import kafka_zk.spark_jobs.source.datasource
import kafka_zk.spark_jobs.source.range_fetcher
import kafka_zk.spark_jobs.source.stream_reader
from kafka_zk.spark_jobs.source.range_settings import FetchSettings
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.errors import FetchFailed
fetcher = kafka_zk.spark_jobs.source.range_fetcher.fetch(
    [OffsetRange("t", 0, 0, 1)], FetchSettings(ClientSettings("127.0.0.1:1", patience_ms=1)))
try:
    list(fetcher)
except FetchFailed:
    pass
print(*sorted(set(sys.modules) & {"twisted", "kazoo", "kafka_zk.registry", "kafka_zk.network"}))
"""


def test_an_executor_loads_neither_reactor_nor_zookeeper() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
