"""The map of the last offsets: exact, and no bigger than it was told."""

import random

import pytest

from kafka_zk.storage.errors import InvalidConfig
from kafka_zk.storage.offset_map import ENTRY_SIZE, NOT_FOUND, OffsetMap


@pytest.mark.parametrize("slots", [2, 3, 4, 7, 11, 101, 1000])
def test_it_knows_what_a_dictionary_knows(slots: int) -> None:
    """Up to the last key that fits, also where every slot is taken."""
    rng = random.Random(slots)
    offsets = OffsetMap(slots * ENTRY_SIZE, 1.0)
    known: dict[bytes, int] = {}
    for offset in range(5 * slots):
        key = str(rng.randrange(2 * slots)).encode()
        if key in known or len(known) < offsets.max_size:
            assert offsets.put(key, offset)
            known[key] = offset
        else:
            assert not offsets.put(key, offset)
        assert offsets.get(b"unknown") == NOT_FOUND
    assert {key: offsets.get(key) for key in known} == known
    assert offsets.size == len(known) == offsets.max_size


def test_it_is_as_big_as_its_memory_at_most() -> None:
    offsets = OffsetMap(1000, 0.5)
    assert offsets.slots * ENTRY_SIZE <= 1000 and offsets.max_size == offsets.slots // 2
    assert OffsetMap(1 << 30, 0.9, most_keys=10).slots < 200
    assert OffsetMap(10 * ENTRY_SIZE, 0.9, most_keys=1 << 40).slots <= 10
    with pytest.raises(InvalidConfig, match="no room for a key"):
        OffsetMap(ENTRY_SIZE, 0.9)


def test_offset_zero_and_the_empty_key_are_as_good_as_any() -> None:
    offsets = OffsetMap(4096)
    assert offsets.get(b"") == NOT_FOUND
    assert offsets.put(b"", 0)
    assert offsets.get(b"") == 0 and offsets.size == 1 and 0 < offsets.utilization < 1
