"""The producer chooses the same partitions as Java's."""

import pytest

from kafka_zk.clients.producer.partitioners import make_partitioner
from tests.kafka_zk.base.test_murmur2 import JAVA_MURMUR2


@pytest.mark.parametrize(("data", "java"), JAVA_MURMUR2.items())
def test_partition_drops_the_sign_bit_before_the_remainder(data: bytes, java: int) -> None:
    """The remainder is of the hash without its sign bit, not of its absolute value."""
    partitioner = make_partitioner("sticky", 100)
    assert partitioner.partition("t", data, None, 7, []) == (java & 0x7FFFFFFF) % 7


def test_records_without_key_go_round_all_available_partitions() -> None:
    """Round-robin serves each partition that has a leader equally, topic by topic."""
    partitioner = make_partitioner("roundrobin", 16384)
    got = [partitioner.partition("t", None, b"v", 4, (0, 2, 3)) for _ in range(6)]
    assert got == [0, 2, 3, 0, 2, 3]
    assert partitioner.partition("other", None, b"v", 4, ()) == 0


def test_sticky_moves_on_after_a_batch_of_bytes() -> None:
    """Records without a key stay with a partition until it has received batch.size bytes."""
    partitioner = make_partitioner("sticky", 100)
    got = [partitioner.partition("t", None, b"x" * 40, 3, (0, 1, 2)) for _ in range(7)]
    assert got == [0, 0, 0, 1, 1, 1, 2]


def test_user_function_decides_keyed_records_too() -> None:
    """The function gets topic, key, value and count; a partition outside the topic is refused with a sentence."""
    partitioner = make_partitioner(lambda topic, key, value, count: len(value or b""), 16384)
    assert partitioner.partition("t", b"key", b"xx", 3, (0, 1, 2)) == 2
    with pytest.raises(ValueError, match="chose partition 5 of t"):
        partitioner.partition("t", b"key", b"xxxxx", 3, (0, 1, 2))
