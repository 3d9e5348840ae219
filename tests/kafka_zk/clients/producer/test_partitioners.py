"""The producer chooses the partitions that Java's would."""

import pytest

from kafka_zk.clients.producer.partitioners import make_partitioner, murmur2

# Computed with org.apache.kafka.common.utils.Utils.murmur2 of kafka-clients 3.9.1 (signed, as Java prints them).
JAVA_MURMUR2 = {
    b"": 275646681,
    b"a": -1563381124,
    b"ab": 316155434,
    b"abc": 479470107,
    b"abcd": -1323649548,
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"UA": -624396550,
    b"AA": 426800181,
    b"HA": 1331454879,
    "\u017elu\u0165ou\u010dk\u00fd".encode(): 1622223876,
    bytes(range(256)): -1948347274,
    b"\xff\xfe\x80": -160726397,
}


@pytest.mark.parametrize(("data", "expected"), JAVA_MURMUR2.items())
def test_murmur2_equals_java(data: bytes, expected: int) -> None:
    """Every golden value of the Java library comes out, tails of 0 to 3 bytes and high bytes included."""
    assert murmur2(data) == expected & 0xFFFFFFFF


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
    """A keyless record stays with the partition until that one got batch.size bytes."""
    partitioner = make_partitioner("sticky", 100)
    got = [partitioner.partition("t", None, b"x" * 40, 3, (0, 1, 2)) for _ in range(7)]
    assert got == [0, 0, 0, 1, 1, 1, 2]


def test_user_function_decides_keyed_records_too() -> None:
    """A callable gets topic, key, value and count; a number outside the topic is refused with a sentence."""
    partitioner = make_partitioner(lambda topic, key, value, count: len(value or b""), 16384)
    assert partitioner.partition("t", b"key", b"xx", 3, (0, 1, 2)) == 2
    with pytest.raises(ValueError, match="chose partition 5 of t"):
        partitioner.partition("t", b"key", b"xxxxx", 3, (0, 1, 2))
