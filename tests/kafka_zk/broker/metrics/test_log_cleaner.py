"""The log cleaner's metrics, before, during and after its work."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_zk.broker.metrics.log_cleaner import log_cleaner_metrics, recopy_percent
from kafka_zk.storage.cleaner.cleaner import CleanerStats
from tests.kafka_zk.broker.replica.test_log_cleaner import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.cleaner.stop()
    made.logs.shutdown()


def values(broker: Broker) -> dict[str, float]:
    """Values by metric name, without the prefix, and by log directory."""
    return {
        sample.name.removeprefix("kafka_log_")
        + "".join(f",{Path(value).name}" for value in sample.labels.values()): sample.value
        for family in log_cleaner_metrics(broker.cleaner, broker.clock.wall_ms())
        for sample in family.samples
    }


def test_they_are_there_from_the_start(broker: Broker) -> None:
    assert values(broker) == {
        "logcleaner_cleaner_recopy_percent": 0,
        "logcleaner_max_clean_time_secs": 0,
        "logcleaner_max_buffer_utilization_percent": 0,
        "logcleaner_max_compaction_delay_secs": 0,
        "logcleaner_deadthreadcount": 0,
        "logcleanermanager_max_dirty_percent": 0,
        "logcleanermanager_time_since_last_run_ms": 0,
        "logcleanermanager_uncleanable_partitions_count,one": 0,
        "logcleanermanager_uncleanable_partitions_count,two": 0,
    }


def test_they_tell_of_a_cleaning_and_of_what_cannot_be_cleaned(broker: Broker) -> None:
    log = broker.log("t")
    broker.log("late", min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=60_000)
    bad = broker.log("bad")
    broker.clock.advance(90)
    broker.cleaner.manager.mark_uncleanable(bad, "it is damaged")
    for _ in broker.cleaner.manager.examine_steps(broker.clock.wall_ms()):
        pass
    told = values(broker)
    assert told["logcleanermanager_max_dirty_percent"] == 100
    assert told["logcleaner_max_compaction_delay_secs"] == 30
    folder = broker.logs.log_dir_of(bad.tp).name
    assert told[f"logcleanermanager_uncleanable_partitions_count,{folder}"] == 1
    broker.cleaner.start()
    assert log.cleaned_offset == 8
    broker.clock.advance(0.5)
    told = values(broker)
    assert 0 < told["logcleaner_cleaner_recopy_percent"] < 100
    assert told["logcleanermanager_max_dirty_percent"] == 0
    assert told["logcleanermanager_time_since_last_run_ms"] == 500


def test_recopy_is_over_all_threads() -> None:
    stats = [CleanerStats(bytes_read=300, bytes_written=100), CleanerStats(), CleanerStats(bytes_read=100)]
    assert recopy_percent(stats) == 25
