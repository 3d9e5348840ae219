"""The map of last offsets is exact and stays within its memory limit."""

import random

import pytest

from kafka_zk.storage.cleaner.offset_map import ENTRY_SIZE, OffsetMap
from kafka_zk.storage.files.errors import InvalidConfig


@pytest.mark.parametrize("slots", [2, 3, 4, 7, 11, 101, 1000])
def test_it_knows_what_a_dictionary_knows(slots: int) -> None:
    """The map is exact until it is full, even if every slot is used."""
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
        assert offsets.get(b"unknown") == -1
    assert {key: offsets.get(key) for key in known} == known
    assert offsets.size == len(known) == offsets.max_size


def test_it_is_as_big_as_its_memory_at_most() -> None:
    offsets = OffsetMap(1000, 0.5)
    assert offsets.slots * ENTRY_SIZE <= 1000 and offsets.max_size == offsets.slots // 2
    assert OffsetMap(1 << 30, 0.9, offsets=range(100, 110)).slots < 200
    assert OffsetMap(10 * ENTRY_SIZE, 0.9, offsets=range(1 << 40)).slots <= 10
    with pytest.raises(InvalidConfig, match="no room for a key"):
        OffsetMap(ENTRY_SIZE, 0.9)


@pytest.mark.parametrize("load_factor", [0.05, 0.3, 0.5, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("count", [1, 60, 126, 1000])
def test_all_offsets_that_are_announced_have_room(count: int, load_factor: float) -> None:
    """All announced offsets fit, because a batch that never fits could never be cleaned."""
    offsets = OffsetMap(1 << 20, load_factor, range(count))
    assert all(offsets.put(b"%d" % offset, offset) for offset in range(count))


def test_offset_zero_and_the_empty_key_are_as_good_as_any() -> None:
    offsets = OffsetMap(4096)
    assert offsets.get(b"") == -1
    assert offsets.put(b"", 0)
    assert offsets.get(b"") == 0 and offsets.size == 1 and 0 < offsets.utilization < 1


@pytest.mark.parametrize("seed", range(20))
def test_what_a_later_offset_of_the_key_replaces_has_a_bit(seed: int) -> None:
    """Only replaced offsets have a bit. Offsets that were not announced are still added."""
    rng = random.Random(seed)
    first, count = rng.choice((0, 17, 1 << 40)), rng.choice((1, 8, 300))
    offsets = OffsetMap(100_000, 0.9, range(first, first + count))
    puts: list[tuple[bytes, int]] = []
    for offset in (*range(first, first + count), first - 1, first + count + 1000):
        puts.append((b"%d" % rng.randrange(40), max(0, offset)))
        assert offsets.put(*puts[-1])
    found, bits = offsets.replaced
    replaced = {
        offset
        for number, (key, offset) in enumerate(puts)
        if any(later == key and there > offset for later, there in puts[number + 1 :])
    }
    for offset in range(first, first + count):
        place = offset - found
        if place < len(bits) * 8 and all(there != offset for _, there in puts[count:]):
            last = [there for key, there in puts if (key, offset) in puts]
            assert last and bool(bits[place >> 3] >> (place & 7) & 1) == (offset in replaced), offset


def test_there_are_no_bits_where_they_would_take_much_of_the_memory() -> None:
    with_bits = OffsetMap(64_000, 0.9, range(7_000))
    assert len(with_bits.replaced.bits) == 876
    assert with_bits.slots * ENTRY_SIZE + len(with_bits.replaced.bits) <= 64_000
    assert not OffsetMap(64_000, 0.9, range(9_000)).replaced.bits


def test_a_run_of_offsets_is_replaced_if_each_is() -> None:
    rng = random.Random(7)
    offsets = OffsetMap(64_000, 0.9, range(100, 400))
    for offset in range(100, 400):
        offsets.put(b"a" if rng.random() < 0.97 else b"%d" % offset, offset)
    first, bits = offsets.replaced
    gone = {first + place for place in range(len(bits) * 8) if bits[place >> 3] >> (place & 7) & 1}
    assert 200 < len(gone) < 300
    for offset in range(90, 420):
        for count in (0, 1, 2, 7, 8, 9, 30, 1000):
            expected = count > 0 and all(offset + index in gone for index in range(count))
            assert offsets.replaced.has_all(offset, count) == expected
    offsets.forget_replaced()
    assert not offsets.replaced.has_all(101, 1)
