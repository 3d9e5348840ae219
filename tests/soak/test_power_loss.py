"""Power fails at a random moment: only records that were not flushed may be lost, and with ``flush.messages=1`` nothing
that was acknowledged. The machine restarts several times, because each start depends on the files of the previous one.
"""

import dataclasses
import random
from pathlib import Path

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files import files
from kafka_zk.storage.files.log_config import LogConfig
from tests.soak.logs import RandomLogs, check_prefix, small_segments
from tests.soak.power import Disk
from tests.storage.helpers import T0

LOOSE = TopicPartition("loose", 0)
FLUSHED = TopicPartition("flushed", 0)
BOTH = (LOOSE, FLUSHED)
LIVES = 4


class Life:
    """One run of the log manager on a disk that will lose power."""

    def __init__(self, path: Path, rng: random.Random, config: LogConfig, disk: Disk) -> None:
        self.rng = rng
        self.path = path
        self.disk = disk
        self.logs = RandomLogs(path, rng, config)

    def live(self, flush_first: LogConfig) -> None:
        """Do random work; record each durable offset as soon as storage reports it."""
        manager, rng = self.logs.manager, self.rng
        configs = {LOOSE: manager.default_config, FLUSHED: flush_first}
        for _ in range(rng.randint(0, 60)):
            tp = rng.choice(BOTH)
            log = manager.get_or_create(tp, configs[tp], "A" * 22)
            log.follow_log_end()  # like the leader of a topic with one replica
            what = rng.random()
            if what < 0.8:
                self.logs.append(log)
            elif what < 0.88:
                log.flush()
            elif what < 0.94:
                manager.upkeep.checkpoint()
            elif what < 0.97:
                log.roll(0)
            elif what < 0.99 and log.log_end_offset:
                log.increment_log_start_offset(rng.randint(0, log.log_end_offset))
                log.delete_old_segments(T0)
            else:
                log.delete_old_segments(T0 + log.config.retention_ms + 1)  # all records
            self.logs.acknowledged[tp] = max(self.logs.acknowledged.get(tp, 0), log.recovery_point)

    def end(self, target: Path) -> None:
        """Power fails, sometimes right after a clean shutdown."""
        if self.rng.random() < 0.15:
            ends = {log.tp: log.log_end_offset for log in self.logs.manager.all_logs()}
            self.logs.manager.shutdown()
            self.logs.acknowledged.update(ends)
        else:
            self.logs.crash()
        self.disk.lose_power(self.rng, target)


def test_only_what_was_not_flushed_is_lost(tmp_path: Path, campaign_seed: int) -> None:
    rng = random.Random(campaign_seed)
    config = small_segments(rng)
    flush_first = dataclasses.replace(config, flush_messages=1)
    path = tmp_path / "0"
    path.mkdir()
    appended: dict[TopicPartition, list[tuple[int, bytes | None]]] = {}
    durable: dict[TopicPartition, int] = {}
    deleted: dict[TopicPartition, int] = {}
    for number in range(LIVES):
        disk = Disk(path)
        with files.use(disk):
            life = Life(path, rng, config, disk)
            life.logs.appended, life.logs.acknowledged = appended, durable
            life.logs.manager.start({"flushed": {"flush.messages": "1"}})
            for tp in BOTH:
                log = life.logs.manager.get(tp)
                if log is None:
                    assert not durable.get(tp), f"{tp} was durable up to {durable[tp]} and is gone"
                    appended[tp] = []
                    continue
                end_offset = check_prefix(log, appended[tp], durable.get(tp, 0), deleted.get(tp, 0))
                appended[tp] = [each for each in appended[tp] if each[0] < end_offset]
            life.live(flush_first)
            for log in life.logs.manager.all_logs():
                deleted[log.tp] = max(deleted.get(log.tp, 0), log.log_start_offset)
            path = tmp_path / str(number + 1)
            life.end(path)
