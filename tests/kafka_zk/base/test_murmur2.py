"""Java's murmur2."""

import pytest

from kafka_zk.base.murmur2 import murmur2

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
    """Our hash equals every golden value of the Java library, for tails of 0 to 3 bytes and for high bytes."""
    assert murmur2(data) == expected & 0xFFFFFFFF
