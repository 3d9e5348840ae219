"""Topic configuration: Kafka's defaults, bounds and messages that name the key."""

from dataclasses import fields

import pytest

from kafka_zk.storage.files.errors import InvalidConfig
from kafka_zk.storage.files.log_config import DEFAULT, TOPIC_CONFIGS, LogConfig, field_name


def test_the_table_and_the_fields_agree() -> None:
    """Every key is a field with the same default, and every field is a key; one of them is a broker key."""
    of_topics = {field.name for field in fields(LogConfig)} - {"remote_log_storage_system_enable"}
    assert {field_name(key) for key in TOPIC_CONFIGS} == of_topics
    for key, entry in TOPIC_CONFIGS.items():
        assert getattr(DEFAULT, field_name(key)) == entry.default, key
        assert entry.check(entry.default), key


def test_every_default_survives_its_own_text() -> None:
    """A value can be set to the text that DescribeConfigs returns."""
    properties = {key: DEFAULT.property_text(key) for key in TOPIC_CONFIGS}
    assert LogConfig.from_properties(properties) == DEFAULT


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("segment.bytes", "13"),
        ("segment.bytes", "2147483648"),
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("cleanup.policy", "delete,shred"),
        ("segment.bytes", "1_000"),
        ("compression.type", "zip"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("preallocate", "yes"),
        ("message.timestamp.type", "Never"),
        ("leader.replication.throttled.replicas", "a:b"),
        ("message.format.version", "new"),
        ("message.format.version", "9.9"),
        ("no.such.key", "1"),
    ],
)
def test_bad_values_are_refused_naming_the_key(key: str, text: str) -> None:
    """The message also contains the allowed values."""
    with pytest.raises(InvalidConfig, match=key.replace(".", r"\.")):
        LogConfig.from_properties({key: text})


def test_topic_properties_win_over_defaults() -> None:
    """Values have the right types."""
    base = LogConfig(retention_ms=5, segment_bytes=100)
    config = LogConfig.from_properties(
        {"segment.bytes": " 200 ", "cleanup.policy": "compact, delete", "preallocate": "TRUE",
         "follower.replication.throttled.replicas": "0:1,2:3"}, base,
    )  # fmt: skip
    assert (config.retention_ms, config.segment_bytes, config.preallocate) == (5, 200, True)
    assert config.cleanup_policy == ("compact", "delete") and config.is_compacted and config.is_deleted
    assert config.property_text("follower.replication.throttled.replicas") == "0:1,2:3"


def test_lags_must_fit_each_other() -> None:
    """Kafka makes the same check."""
    with pytest.raises(InvalidConfig, match="compaction"):
        LogConfig.from_properties({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})


def test_the_old_timestamp_bound_counts_while_the_new_ones_are_default() -> None:
    """KIP-937 defines this rule."""
    config = LogConfig.from_properties(
        {"message.timestamp.difference.max.ms": "7", "message.timestamp.after.max.ms": "3"}
    )
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (7, 3)
