"""A deleted partition stays deleted through a power loss, once ``prepare_deletions`` was carried out."""

import random
from pathlib import Path

import pytest

from kafka_zk.sim.machine.disk import SimDisk
from kafka_zk.storage.files import files
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.log_manager import LogManager
from tests.storage.helpers import TP, Clock, append, batch


def manager(path: Path) -> LogManager:
    logs = LogManager([path], LogConfig(), broker_id=0, cluster_id="c", clock_ms=Clock())
    logs.start({})
    return logs


@pytest.mark.parametrize("seed", range(10))
def test_a_deleted_partition_stays_deleted(seed: int) -> None:
    """The controller forgets a topic after the response to StopReplica. If the log came back, it would refuse the next
    topic of that name."""
    disk = SimDisk(lambda: 0)
    with files.use(disk):
        logs = manager(Path("/logs"))
        log = logs.get_or_create(TP, topic_id="YTI9vJfzQOepxQr8vcaMoQ")
        append(log, batch(5))
        log.flush()
        logs.delete(TP)
        ((work, _),) = logs.upkeep.prepare_deletions()
        work()
        assert logs.upkeep.prepare_deletions() == []
        disk.lose_power("/logs", random.Random(seed))
        assert manager(Path("/logs")).get(TP) is None
