"""What a process loads that only fetches: no reactor, no ZooKeeper client, no pyspark session."""

import subprocess
import sys

_PROGRAM = """
import sys
import spark_jobs.datasource, spark_jobs.range_fetcher, spark_jobs.stream_reader
from spark_jobs.range_settings import FetchSettings
from spark_jobs.cluster_client import ClientSettings
from spark_jobs.offset_ranges import OffsetRange
from spark_jobs.errors import FetchFailed
fetcher = spark_jobs.range_fetcher.RangeFetcher(
    OffsetRange("t", 0, 0, 1), FetchSettings(ClientSettings("127.0.0.1:1", patience_ms=1)))
try:
    list(fetcher)
except FetchFailed:
    pass
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"twisted", "kazoo", "registry"}))
"""


def test_an_executor_loads_neither_reactor_nor_zookeeper() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
