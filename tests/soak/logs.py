"""A log manager that is filled at random, and the records that it should have."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.findings import Finding
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager, ManagerSettings
from tests.storage.helpers import T0, Clock, append, batch, read_values

Values = list[tuple[int, bytes | None]]


def small_segments(rng: random.Random) -> LogConfig:
    """Segments and index intervals of a few batches, so that even a short log has several segments and index
    entries."""
    return LogConfig(
        segment_bytes=rng.choice((7_000, 20_000, 1 << 20)), index_interval_bytes=rng.choice((0, 300, 4096))
    )


class RandomLogs:
    """Logs in one directory, with a list of the records that were appended to each, and of those that must survive."""

    def __init__(self, path: Path, rng: random.Random, config: LogConfig, helper_count: int = 0) -> None:
        self.path = path
        self.rng = rng
        self.config = config
        self.findings: list[Finding] = []
        self.step_ms = 0
        """Timestamp difference between two consecutive records."""
        self.manager = LogManager(
            [path],
            config,
            broker_id=0,
            cluster_id="c",
            clock_ms=Clock(),
            settings=ManagerSettings(recovery_helper_count=helper_count),
            callbacks=LogCallbacks(observe=self.findings.append),
        )
        self.appended: dict[TopicPartition, Values] = {}
        self.acknowledged: dict[TopicPartition, int] = {}
        """The offset up to which all records are acknowledged, for topics that flush first (flush.messages=1)."""

    def log(self, tp: TopicPartition) -> Log:
        """An existing log."""
        log = self.manager.get(tp)
        assert log is not None, f"{tp} is gone"
        return log

    def append(self, log: Log) -> None:
        """Append one batch. If the topic's configuration requires it, the batch is flushed before it counts as
        acknowledged."""
        rng = self.rng
        tp = log.tp
        values = self.appended.setdefault(tp, [])
        value = rng.randbytes(rng.choice((0, 10, 200, 1500)))
        producer: dict[str, Any] = {}
        if rng.random() < 0.5:
            known = log.producers.producers.get(7)
            following = known.last_sequence + 1 if known else 0
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": following}
        data = batch(rng.randint(1, 4), value=value, timestamp_ms=T0 + self.step_ms * log.log_end_offset, **producer)
        info = append(log, data, leader_epoch=len(values) // 40)
        values += [(offset, value) for offset in range(info.first_offset, info.last_offset + 1)]
        if log.config.flush_messages == 1:
            while (target := log.flush_target(T0)) is not None:
                log.flush(target)
            self.acknowledged[tp] = log.log_end_offset

    def crash(self) -> None:
        """Simulate a killed process: release its locks without writing anything."""
        for log_dir in self.manager.hosted.live_dirs:
            log_dir.close()
        for log in self.manager.all_logs():
            log.segments.close_files()


def check_prefix(log: Log, appended: Values, at_least: int, deleted: int = 0) -> int:
    """Check that the log serves an unchanged prefix of the appended records, at least up to ``at_least``; returns its
    end.

    Any of the records before ``deleted`` may be there, because a deletion may be only partly durable.
    """
    end_offset = log.log_end_offset
    assert end_offset >= at_least, f"{log}: the records {end_offset} to {at_least - 1} are lost"
    first = max(log.log_start_offset, deleted)
    expected = [each for each in appended if first <= each[0] < end_offset]
    served = read_values(log)
    kept = [each for each in served if each[0] >= first]
    assert kept == expected, f"{log}: serves {summary(kept)}, should serve {summary(expected)}"
    assert set(served) <= set(appended), f"{log}: serves what was never appended"
    return end_offset


def summary(values: Sequence[tuple[int, bytes | None]]) -> str:
    offsets = [offset for offset, _ in values]
    return f"{len(offsets)} records from {offsets[0]} to {offsets[-1]}" if offsets else "nothing"
