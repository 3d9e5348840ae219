"""The native loops of a cleaning give the same results as Python's on valid and invalid records, and leave equal
logs."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.native.loading import Implementation, Native
from kafka_zk.storage.cleaner import cleaner
from kafka_zk.storage.cleaner.offset_map import OffsetMap
from kafka_zk.storage.cleaner.record_loops import NativeLoops, PythonLoops, RecordLoops
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.record_batch import BatchHeader, encode_record
from tests.storage.cleaner.test_cleaner_model import run_history
from tests.storage.compacted import check

MAP_BYTES = 24 * 200
KEYS = (None, b"", b"a", b"b", b"seven b", b"eight by", b"nine byte", b"k" * 100)
FIRST, COUNT = 1000, 60
"""Offsets for which the map has bits."""

Outcome = object


@st.composite
def records(draw: st.DrawFn) -> tuple[bytes, int]:
    """(Encoded records, their number). The records are sometimes damaged or truncated, and the number is sometimes
    wrong.
    """
    parts, delta = [], -1
    deltas = draw(st.sampled_from(((1,), (1,), (1, 1, 2), (1, 1, 1, 0, -3), (1, 1, 1, 1 << 31, 1 << 62))))
    for _ in range(draw(st.sampled_from((0, 1, 4, 12)))):
        delta += draw(st.sampled_from(deltas))
        timestamp_delta = draw(st.sampled_from((0, 5, -9, 1 << 40, (1 << 63) - 1, -(1 << 63))))
        value = draw(st.sampled_from((None, b"", b"value" * 20)))
        parts.append(encode_record(timestamp_delta, delta, draw(st.sampled_from(KEYS)), value))
    data = bytearray(b"".join(parts))
    for _ in range(draw(st.sampled_from((0, 0, 0, 0, 0, 0, 0, 1, 3)))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0xFF)))
    del data[draw(st.sampled_from((*[len(data)] * 9, len(data) // 2))) :]
    return bytes(data), len(parts) + draw(st.sampled_from((*[0] * 9, 1, -1)))


def header(count: int, base_offset: int, last_delta: int) -> BatchHeader:
    return BatchHeader(base_offset, 0, 0, 2, 0, 0, last_delta, 0, 0, -1, -1, -1, count)


def outcome(call: Callable[..., Outcome], *arguments: object) -> Outcome:
    try:
        return call(*arguments)
    except CorruptRecord:
        return CorruptRecord


def state(offsets: OffsetMap) -> object:
    return offsets.size, [offsets.get(key) for key in KEYS if key is not None], offsets.replaced


@given(
    batches=st.lists(
        st.tuples(records(), st.sampled_from((0, FIRST, FIRST, FIRST + 20)), st.sampled_from((40, 40, 40, 3))),
        max_size=6,
    ),
    bits=st.booleans(),
    max_keys=st.sampled_from((2, 5, 100)),
    start=st.sampled_from((0, FIRST, FIRST + 3)),
    before=st.sampled_from((0, 61)),
)
def test_the_same_records_lead_to_the_same_map_and_the_same_choice(
    native: Native,
    batches: list[tuple[tuple[bytes, int], int, int]],
    bits: bool,
    max_keys: int,
    start: int,
    before: int,
) -> None:
    announced = range(FIRST, FIRST + COUNT) if bits else None
    maps = [OffsetMap(MAP_BYTES, 0.9, announced), OffsetMap(MAP_BYTES, 0.9, announced, native)]
    loops: list[RecordLoops] = [PythonLoops(maps[0]), NativeLoops(maps[1], native)]
    for offsets in maps:
        offsets.max_size = min(offsets.max_size, max_keys)
    for (data, count), base_offset, last_delta in batches:
        of_batch = header(count, base_offset, last_delta)
        padded = bytes(before) + data
        noted = [outcome(each.note_keys, padded, before, of_batch, start) for each in loops]
        assert noted[0] == noted[1]
        if noted[0] is CorruptRecord:  # a cleaning ends here; the contents of the map no longer matter
            break
        assert state(maps[0]) == state(maps[1])
    for (data, count), base_offset, last_delta in batches:
        of_batch = header(count, base_offset, last_delta)
        for latest, keeps_tombstones in ((base_offset + 3, False), (1 << 62, True)):
            chosen = [outcome(each.choose, data, 0, of_batch, latest, keeps_tombstones) for each in loops]
            assert chosen[0] == chosen[1] or noted[0] is CorruptRecord
    for offsets in maps:
        offsets.close()


GOOD = encode_record(0, 0, b"key", b"value")
REFUSED = {
    "nothing": b"",
    "a varint without an end": b"\x80" * 4,
    "a varint of eleven bytes": b"\x80" * 10 + b"\x00" * 10,
    "no length": b"\x00" * 8,
    "a negative length": b"\x03" + GOOD[1:],
    "a length beyond the end": b"\x7e\x01" + GOOD[1:],
    "the largest length": b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + GOOD[1:],
    "nothing after the attributes": b"\x02\x00",
    "an offset delta of 33 bits": encode_record(0, 1 << 31, b"key", b"value"),
    "a negative offset delta of 33 bits": encode_record(0, -(1 << 31) - 1, b"key", b"value"),
    "a key that ends with its record": b"\x0c\x00\x00\x00\x04ab",
    "a key beyond its record": b"\x0c\x00\x00\x00\x7eab" + GOOD * 20,
    "the largest key": b"\x1a\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "more than one record": GOOD + GOOD,
    "a byte more": GOOD + b"\x00",
    "a byte less": GOOD[:-1],
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("is_native", [False, True], ids=["python", "native"])
def test_malformed_records_are_refused(data: bytes, is_native: bool, request: pytest.FixtureRequest) -> None:
    native = request.getfixturevalue("native") if is_native else None
    offsets = OffsetMap(MAP_BYTES, native=native)
    loops = PythonLoops(offsets) if native is None else NativeLoops(offsets, native)
    with pytest.raises(CorruptRecord):
        loops.note_keys(data, 0, header(1, 0, 0), 0)
    with pytest.raises(CorruptRecord):
        loops.choose(data, 0, header(1, 0, 0), 100, True)


def raw(value: int, least_bytes: int = 1) -> bytes:
    """A varint without zigzag encoding, for a number of any size, padded to a given length."""
    count = max(least_bytes, (value.bit_length() + 6) // 7)
    return bytes(value >> 7 * index & 0x7F | (index < count - 1) << 7 for index in range(count))


def odd(length: int = 0, timestamp: int = 0, delta: int = 0, key: int = 2, least_bytes: int = 1) -> bytes:
    """A record with the key "a", given bits to set in its length, and other fields as they are encoded."""
    fields = raw(timestamp, least_bytes) + raw(delta, least_bytes) + raw(key, least_bytes)
    body = b"\0" + fields + b"a" * (key & 2) + b"\x02v\0"
    return raw(2 * len(body) | length, least_bytes) + body


BIT_64 = 1 << 64
ODD = {
    "a length of 65 bits": odd(length=BIT_64),
    "a length of 70 bits": odd(length=BIT_64 << 5),
    "a timestamp of 65 bits": odd(timestamp=BIT_64 | 10),
    "a negative timestamp of 65 bits": odd(timestamp=BIT_64 | 9),
    "a timestamp of 70 bits": odd(timestamp=BIT_64 << 5 | 10),
    "an offset delta of 65 bits": odd(delta=BIT_64 | 6),
    "a key of 65 bits": odd(key=BIT_64 | 2),
    "no key, in 65 bits": odd(key=BIT_64 | 1),
    "leading zeros": odd(timestamp=10, delta=6, least_bytes=10),
    "offset -2": odd(delta=3),
    "offset -1": odd(delta=1),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
@pytest.mark.parametrize("known_offset", [None, 5])
def test_odd_records_are_read_alike(native: Native, data: bytes, known_offset: int | None) -> None:
    """Bits above 64 are lost, as in Java, and an unknown key replaces nothing."""
    found = []
    for each in (None, native):
        offsets = OffsetMap(MAP_BYTES, native=each)
        loops = PythonLoops(offsets) if each is None else NativeLoops(offsets, each)
        if known_offset is not None:
            offsets.put(b"a", known_offset)
        noted = outcome(loops.note_keys, data, 0, header(1, 0, 20), 0)
        found.append((noted, outcome(loops.choose, data, 0, header(1, 0, 20), 100, True), state(offsets)))
    assert found[0] == found[1]
    assert found[0][0] is True


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_histories_come_to_the_same_end(
    tmp_path: Path, seed: int, native: Native, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the cleaned logs are equal, byte for byte."""
    left = []
    for name, found in (("python", None), ("native", native)):
        monkeypatch.setattr(cleaner, "implementation", lambda found=found: Implementation(found))
        history = run_history(tmp_path / name, seed)
        check(history)
        directory = history.log.directory
        left.append({path.name: path.read_bytes() for path in directory.iterdir() if ".log" in path.name})
    assert left[0] == left[1] and left[0]


def test_the_digest_is_siphash(native: Native) -> None:
    """The test vectors of SipHash's authors (vectors.h, vectors_sip128), for the key 00 01 … 0f and the data 00 01 …"""
    secret = bytes(range(16))
    expected = {
        0: "a3817f04ba25a8e66df67214c7550293",
        1: "da87c1d86b99af44347659119b22fc45",
        15: "5493e99933b0a8117e08ec0f97cfc3d9",
        63: "5150d1772f50834a503e069a973fbd7c",
    }
    assert {size: native.digest(secret, bytes(range(size))).hex() for size in expected} == expected


@pytest.mark.parametrize("is_native", [False, True], ids=["python", "native"])
def test_a_digest_depends_on_a_random_secret(is_native: bool, request: pytest.FixtureRequest) -> None:
    """Without a secret, a client could construct two keys such that a record of one key removes the other key's
    record.
    """
    native = request.getfixturevalue("native") if is_native else None
    tables = []
    for _ in range(2):
        offsets = OffsetMap(MAP_BYTES, native=native)
        offsets.put(b"key", 0)
        tables.append(bytes(offsets.table))
    assert tables[0] != tables[1]


NOT_A_MAP: list[tuple[str, bytes, int]] = [
    ("a short secret", b"x" * 15, 48),
    ("a table of one entry", b"x" * 16, 24),
    ("half an entry", b"x" * 16, 60),
    ("no table", b"x" * 16, 0),
]


@pytest.mark.parametrize(("secret", "table_bytes"), [row[1:] for row in NOT_A_MAP], ids=[row[0] for row in NOT_A_MAP])
def test_what_is_no_map_is_refused(native: Native, secret: bytes, table_bytes: int) -> None:
    table = bytearray(table_bytes)
    with pytest.raises(ValueError, match="a secret must have 16 bytes"):
        native.note_keys(GOOD, 0, 1, 0, 0, 0, secret, table, 0, 1, 0, bytearray())
    with pytest.raises(ValueError, match="a secret must have 16 bytes"):
        native.choose(GOOD, 0, 1, 0, 0, True, secret, table, 0, bytearray())


@pytest.mark.parametrize(
    ("start", "max_size", "start_offset"), [(-1, 1, 0), (len(GOOD) + 1, 1, 0), (0, 2, 0), (0, 1, -1)]
)
def test_numbers_outside_of_their_range_are_refused(
    native: Native, start: int, max_size: int, start_offset: int
) -> None:
    """A search would never end in a table without a free slot."""
    with pytest.raises(ValueError, match=r"must start inside the data|must be below the number of slots"):
        native.note_keys(GOOD, start, 1, 0, 0, start_offset, bytes(16), bytearray(48), 0, max_size, 0, bytearray())


def test_an_offset_beyond_64_bits_is_refused(native: Native) -> None:
    record = encode_record(0, 9, b"key", b"value")
    with pytest.raises(ValueError, match="malformed"):
        native.note_keys(record, 0, 1, (1 << 63) - 5, 9, 0, bytes(16), bytearray(48), 0, 1, 0, bytearray())


def test_random_bytes_are_refused_or_read_alike(native: Native) -> None:
    rng = random.Random(44)
    offsets = OffsetMap(MAP_BYTES), OffsetMap(MAP_BYTES, native=native)
    loops = PythonLoops(offsets[0]), NativeLoops(offsets[1], native)
    refused = 0
    for _ in range(3000):
        data = bytes(rng.choice((0, 2, 4, 8, 12, 0x7F, 0x80, rng.randrange(256))) for _ in range(rng.randrange(30)))
        found = [outcome(each.choose, data, 0, header(1, 0, 5), 1 << 50, True) for each in loops]
        assert found[0] == found[1]
        refused += found[0] is CorruptRecord
    assert 100 < refused < 3000
