"""A log's files prevail over a configuration that no longer tiers it."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import InconsistentLogDir
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.found_start import FoundStart

T = TopicPartition("t", 0)
ON = LogConfig(remote_log_storage_system_enable=True)
PARTLY_REMOTE = FoundStart(T, 3, 10, [(0, 3), (1, 12)], False)


@pytest.mark.parametrize("cleanup_policy", [("delete",), ("compact",), ("compact", "delete")])
def test_a_log_stays_tiered_that_others_turned_off(cleanup_policy: tuple[str, ...]) -> None:
    """Tiering was turned off while this broker was down. If the broker followed, the log would begin at its first local
    segment, and earlier records would be lost.
    """
    found = PARTLY_REMOTE._replace(clean_shutdown=True)
    config = found.config(LogConfig(remote_log_storage_system_enable=True, cleanup_policy=cleanup_policy))
    assert (config.is_tiered, config.cleanup_policy) == (True, ("delete",))
    assert found.log_start_offset(config) == 3


@pytest.mark.parametrize(
    "found",
    [
        PARTLY_REMOTE._replace(checkpointed=None),
        PARTLY_REMOTE._replace(checkpointed=10),
        PARTLY_REMOTE._replace(epochs=[(0, 10)]),
        PARTLY_REMOTE._replace(epochs=[]),
        PARTLY_REMOTE._replace(tp=TopicPartition("__consumer_offsets", 0)),
    ],
)
def test_a_log_that_is_whole_is_as_its_topic_says(found: FoundStart) -> None:
    """After a crash, the checkpoint or the leader epochs of an ordinary log may be old."""
    assert found.config(ON) is ON
    assert found.log_start_offset(ON) == 10


def test_after_a_crash_a_compacted_log_is_not_tiered() -> None:
    config = LogConfig(remote_log_storage_system_enable=True, cleanup_policy=("compact",))
    assert PARTLY_REMOTE.config(config) is config


def test_without_remote_storage_the_log_is_refused() -> None:
    """If the log were opened, records in remote storage would be lost for good."""
    with pytest.raises(InconsistentLogDir, match="the records 3 to 9 of t-0 are only in remote storage"):
        PARTLY_REMOTE._replace(clean_shutdown=True).config(LogConfig())
    assert not PARTLY_REMOTE.config(LogConfig()).is_tiered
