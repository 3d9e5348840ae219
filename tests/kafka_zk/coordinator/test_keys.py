"""Which partition a key belongs to; the numbers are Java's."""

import pytest

from kafka_zk.coordinator.keys import partition_for


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("g", 103),
        ("my-group", -1906497762),
        ("polygenelubricants", -(2**31)),
        ("ä€", 15432),
        ("\U0001f600", 1772899),
        ("flights", -771814909),
    ],
)
def test_the_hash_is_javas(group_id: str, java_hash: int) -> None:
    """UTF-16 units, 32 bits with sign; the smallest integer has no absolute value and gives 0."""
    expected = 0 if java_hash == -(2**31) else abs(java_hash)
    assert partition_for(group_id, 2**31) == expected
    assert partition_for(group_id, 50) == expected % 50
