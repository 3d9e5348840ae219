"""The partition of ``__remote_log_metadata`` that Kafka chooses."""

from uuid import UUID

import pytest

from kafka_zk.storage.tiered.metadata_partition import metadata_partition


@pytest.mark.parametrize(
    ("topic_id", "expected"),
    [
        ("df29f37d-87cf-4861-a082-98b602be8983", 1),
        ("0beea465-b1c6-458d-933e-c4fc7b0f39ab", 0),
        ("8f3e9022-74ae-458f-b44f-26186d1fd161", 2),
        ("3b29604c-b3ae-4ad1-9017-fc0219324edf", 2),
    ],
)
def test_partition_equals_kafkas(topic_id: str, expected: int) -> None:
    """The expected numbers are where brokers of 3.9.1, with five partitions, wrote the records of these topics'
    partition 0."""
    assert metadata_partition(UUID(topic_id), 0, 5) == expected
