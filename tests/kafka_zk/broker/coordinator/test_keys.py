"""Which partition a key belongs to; the expected numbers come from Java."""

import sys

import pytest

from kafka_zk.broker.coordinator.keys import partition_for


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
    """Java hashes UTF-16 units into a signed 32-bit integer; the smallest integer has no absolute value and gives 0."""
    expected = 0 if java_hash == -(2**31) else abs(java_hash)
    assert partition_for(group_id, 2**31) == expected
    assert partition_for(group_id, 50) == expected % 50


@pytest.mark.parametrize("length", [1, 255, 256, 257, 511, 512, 513, 10_922, 32_767])
def test_long_keys_hash_as_in_java(length: int) -> None:
    """The hash is the same however the key is split into parts."""
    key = ("aé\U0001f600z" * length)[:length]
    encoded = key.encode("utf-16-be")
    hashed = 0
    for position in range(0, len(encoded), 2):
        hashed = (31 * hashed + int.from_bytes(encoded[position : position + 2], "big")) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    expected = 0 if signed == -(1 << 31) else abs(signed)
    assert partition_for(key, 2**31) == expected


def test_the_cost_of_a_hash_is_linear() -> None:
    """Cost is measured in calls. It would not be linear if the powers of 31 were computed again for every unit of a
    key."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        partition_for("a" * 32_000, 50)
    finally:
        sys.setprofile(None)
    assert calls < 1000
