"""Append and lookup cost of one partition as its log grows.

    python -m tests.bench.log_size [--gigabytes 4]

Between the measurements, the log is filled with big batches of incompressible records; each row then has the median of
small appends, of reads at random offsets, and of lookups by random timestamps. The data are deleted at the end.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from kafka_zk.base.types import FetchIsolation, TopicPartition
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.storage.done_here import search_here

BATCH_BYTES = 32 * 1024
SAMPLES = 300
STEPS = (0.001, 0.01, 0.1, 1.0)  # shares of the whole size


def _batch(value: bytes, timestamp_ms: int) -> bytearray:
    builder = RecordBatchBuilder()
    builder.append(timestamp_ms, None, value)
    return bytearray(builder.build())


class _Log:
    def __init__(self, folder: Path) -> None:
        self._now_ms = 1_700_000_000_000
        manager = LogManager([folder], LogConfig(), broker_id=0, cluster_id="bench", clock_ms=lambda: self._now_ms)
        manager.start({})
        self.manager = manager
        self.log = manager.get_or_create(TopicPartition("bench", 0), LogConfig(), None)
        self._noise = os.urandom(BATCH_BYTES)

    def append(self, value: bytes) -> None:
        self._now_ms += 1
        batch = memoryview(_batch(value, self._now_ms))
        self.log.append_as_leader(batch, validate_batch(batch), leader_epoch=0, now_ms=self._now_ms)

    def fill(self, size_bytes: int) -> None:
        while self.log.size_bytes < size_bytes:
            self.append(self._noise)

    def read(self, rnd: random.Random) -> None:
        self.log.read(rnd.randrange(self.log.log_end_offset), 1, isolation=FetchIsolation.HIGH_WATERMARK)

    def find_time(self, rnd: random.Random) -> None:
        search_here(self.log.timestamp_search(1_700_000_000_000 + rnd.randint(1, self.log.log_end_offset)))


def _median_us(work: Callable[[], Any]) -> float:
    samples = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        work()
        samples.append(time.perf_counter() - start)
    return median(samples) * 1e6


def main() -> None:
    """Measure and print one row per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0, help="size of the biggest log (default %(default)s)")
    whole_bytes = parser.parse_args().gigabytes * 1024**3
    rnd = random.Random(0)
    print("      log  segments   append  read at offset  find timestamp   (median, µs)")
    with tempfile.TemporaryDirectory(prefix="kafka-zk-log-size-") as folder:
        log = _Log(Path(folder))
        for step in STEPS:
            log.fill(int(whole_bytes * step))
            row = [
                _median_us(lambda: log.append(b"x" * 100)),
                _median_us(lambda: log.read(rnd)),
                _median_us(lambda: log.find_time(rnd)),
            ]
            size_mb = log.log.size_bytes / 1024**2
            print(f"{size_mb:6.0f} MB  {len(log.log.segments):8}  {row[0]:7.1f}  {row[1]:14.1f}  {row[2]:14.1f}")
        log.manager.shutdown()


if __name__ == "__main__":
    main()
