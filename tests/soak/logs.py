"""A log manager that is filled at random, and what it ought to hold."""

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
    """Segments and index intervals of a few batches, so that a short log has everything that a long one has."""
    return LogConfig(
        segment_bytes=rng.choice((7_000, 20_000, 1 << 20)), index_interval_bytes=rng.choice((0, 300, 4096))
    )


class RandomLogs:
    """Logs in one directory, with a record kept of what was appended to each and what must survive."""

    def __init__(self, path: Path, rng: random.Random, config: LogConfig, helper_count: int = 0) -> None:
        self.path = path
        self.rng = rng
        self.config = config
        self.findings: list[Finding] = []
        self.step_ms = 0
        """How much newer a record is than the one before."""
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
        """Up to which offset everything is acknowledged, for topics that flush first: flush.messages=1."""

    def log(self, tp: TopicPartition) -> Log:
        """One that is there."""
        log = self.manager.get(tp)
        assert log is not None, f"{tp} is gone"
        return log

    def append(self, log: Log) -> None:
        """One batch; flushed before it counts as acknowledged if the topic's configuration says so."""
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
        """The process is gone: locks fall, nothing is written."""
        for log_dir in self.manager.hosted.live_dirs:
            log_dir.close()
        for log in self.manager.all_logs():
            log.segments.close_files()


def check_prefix(log: Log, appended: Values, at_least: int, deleted: int = 0) -> int:
    """The log serves a prefix of what was appended, unchanged, up to ``at_least`` or further; returns its end.

    Of what lay before ``deleted`` any part may be there, unchanged, since a deletion may have become durable in part.
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
