"""The check accepts exactly the records that readers can read, and takes the largest timestamp from the records.

Every check runs in Python and, if it is built, in the native module, with the same results and errors.
"""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_zk.native.loading import Native, implementation
from kafka_zk.storage.files.errors import InvalidRecord, StorageError, UnpacksTooBig
from kafka_zk.storage.records import record_check
from kafka_zk.storage.records.compression import Compression, compress
from kafka_zk.storage.records.record_batch import HEADER_SIZE, BatchHeader, assemble_batch, encode_record, read_header
from kafka_zk.storage.records.record_check import is_checked_quickly
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.records.varint import encode_varint
from tests.storage.records.test_record_stream import RECORDS, Records

LIMIT_BYTES = 1 << 20
LONG_MAX = 2**63 - 1


def outcome(native: Native | None, call: Callable[[], tuple[int, bool]]) -> tuple[int, bool] | Exception:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_check, "_native", native)
        try:
            return call()
        except StorageError as error:
            return error


def both(call: Callable[[], tuple[int, bool]]) -> tuple[int, bool]:
    """The result of both implementations, which must be equal. Raises: StorageError if both raise it."""
    said = outcome(None, call)
    found = outcome(implementation().native, call)
    assert (type(found), str(found)) == (type(said), str(said))
    if isinstance(said, Exception):
        raise said
    return said


def check(batch: bytes | bytearray) -> tuple[int, bool]:
    return both(lambda: record_check.check_batch(batch, read_header(batch), LIMIT_BYTES))


def check_records(records: bytes, position: int, record_count: int, base_timestamp: int) -> tuple[int, bool]:
    return both(lambda: record_check.check_records(records, position, record_count, base_timestamp))


def encoded(records: Records, base_ms: int = 0) -> bytes:
    return b"".join(
        encode_record(timestamp_ms - base_ms, index, key, value, headers)
        for index, (timestamp_ms, key, value, headers) in enumerate(records)
    )


def batch_with(body: bytes, count: int, codec: Compression = Compression.none, base_ms: int = 0) -> bytearray:
    return assemble_batch(
        compress(codec, body) if codec else body,
        attributes=codec,
        record_count=count,
        base_timestamp=base_ms,
        max_timestamp=-1,
    )


@given(RECORDS, st.sampled_from(list(Compression)), st.integers(0, 1 << 42))
def test_readable_records_pass(records: Records, codec: Compression, base_ms: int) -> None:
    """The records may have any timestamps relative to the first."""
    batch = batch_with(encoded(records, base_ms), len(records), codec, base_ms)
    assert check(batch) == (max(record[0] for record in records), True)


@given(RECORDS, st.data())
def test_what_passes_can_be_read(records: Records, data: st.DataObject) -> None:
    """The input is records with one byte changed, removed or added, or with another count."""
    body = bytearray(encoded(records))
    position = data.draw(st.integers(0, len(body) - 1))
    match data.draw(st.sampled_from(("change", "cut", "add", "count"))):
        case "change":
            body[position] = data.draw(st.integers(0, 255))
        case "cut":
            del body[position:]
        case "add":
            body.insert(position, data.draw(st.integers(0, 255)))
    batch = batch_with(bytes(body), len(records) + data.draw(st.integers(-1, 1) if len(records) > 1 else st.just(0)))
    try:
        largest_ms, _ = check(batch)
    except InvalidRecord:
        return
    read = list(decode_records(batch))
    assert largest_ms == max(-1, *(record.timestamp_ms for record in read))


def record_of(body: bytes) -> bytes:
    return encode_varint(len(body)) + body


MALFORMED = {
    "none": b"",
    "ends early": encode_record(0, 0, b"k", b"v")[:-1],
    "longer than the batch": b"\x64" + encode_record(0, 0, b"k", b"v")[1:],
    "negative length": encode_varint(-7) + encode_record(0, 0, None, None)[1:],
    "negative length of two bytes": encode_varint(-200) + bytes(200),
    "key beyond the record": record_of(b"\0\0\0" + encode_varint(40) + b"ab"),
    "bytes behind the headers": record_of(encode_record(0, 0, b"k", b"v")[1:] + b"\0"),
    "negative header count": record_of(b"\0\0\0\1\1" + encode_varint(-1)),
    "header without a name": record_of(b"\0\0\0\1\1" + encode_varint(1) + b"\1\1"),
    "more headers than bytes": record_of(b"\0\0\0\1\1" + encode_varint(1000) + b"\2a\2b"),
    "length of six bytes": b"\x8c\x80\x80\x80\x80\x00" + encode_record(0, 0, None, None)[1:],
    "length of eleven bytes": b"\xff" * 11,
    "two records": encode_record(0, 0, None, None) * 2,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.parametrize("codec", list(Compression))
def test_malformed_records_are_refused(codec: Compression, body: bytes) -> None:
    """Kafka 3.9.1 refuses the same records (tests/peers/logs/test_produced_batches.py). The last record of a batch is
    checked like the first.
    """
    for before in (0, 70):
        sound = b"".join(encode_record(0, index, b"k", b"v" * 100) for index in range(before))
        with pytest.raises(InvalidRecord):
            check(batch_with(sound + body, before + 1, codec))


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_records_that_do_not_decompress_are_refused(codec: Compression) -> None:
    """The error is INVALID_RECORD, which producers do not retry: the CRC shows that the batch was not damaged in
    transit."""
    plain = encode_record(0, 0, b"k", b"v" * 500)
    for blob in (plain, compress(codec, plain)[:-9], b""):
        batch = assemble_batch(blob, attributes=codec, record_count=1, base_timestamp=0, max_timestamp=0)
        with pytest.raises(InvalidRecord):
            check(batch)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_what_grows_beyond_the_bound_is_told_apart(codec: Compression) -> None:
    batch = batch_with(encode_record(0, 0, None, bytes(LIMIT_BYTES)), 1, codec)
    with pytest.raises(UnpacksTooBig):
        check(batch)


@pytest.mark.parametrize(
    ("base_ms", "deltas", "largest_ms"),
    [
        (1000, [0, 5, 3], 1005),
        (1000, [-5, -1, -3], 999),
        (1000, [3, -400], 1003),
        (1000, [0, 1 << 20], 1000 + (1 << 20)),
        (-1, [0, 0], -1),
        (-5000, [0, 0], -1),
        (-1, [0, 7], 6),
        (LONG_MAX, [0, 5], LONG_MAX),
        (-(2**63), [-1, 0], LONG_MAX),
    ],
)
def test_the_largest_timestamp(base_ms: int, deltas: list[int], largest_ms: int) -> None:
    """-1 and smaller values mean no timestamp. Sums beyond 64 bits wrap around, as in Java."""
    body = b"".join(encode_record(delta, index, None, b"v") for index, delta in enumerate(deltas))
    assert check_records(body, 0, len(deltas), base_ms) == (largest_ms, True)


@pytest.mark.parametrize("deltas", [[0, 0, 0], [-1, 5, 9], [1, 2], [0, 2, 1]])
def test_offset_deltas_that_do_not_count_up_are_noticed(deltas: list[int]) -> None:
    body = b"".join(encode_record(0, delta, None, b"v") for delta in deltas)
    assert check_records(body, 0, len(deltas), 0) == (0, False)


def test_only_the_batch_is_read() -> None:
    """Bytes after the length in the batch's header are ignored."""
    batch = batch_with(encode_record(0, 0, None, b"v"), 1)
    header = read_header(batch)
    assert isinstance(header, BatchHeader) and len(batch) == header.size_bytes > HEADER_SIZE
    assert check(batch) == (0, True)


@given(st.binary(max_size=60), st.integers(1, 4), st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=300)
def test_garbage_is_refused_alike(data: bytes, record_count: int, base_ms: int) -> None:
    with suppress(InvalidRecord):
        check_records(data, 0, record_count, base_ms)


@given(RECORDS, st.data())
def test_damage_is_refused_alike(records: Records, data: st.DataObject) -> None:
    body = bytearray(encoded(records))
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0x81, 0xFF)))
    start = data.draw(st.integers(0, 2))
    with suppress(InvalidRecord):
        check_records(bytes(start) + body, start, len(records), 0)


def test_the_native_module_checks_many_records_in_the_turn_of_the_append(native: Native) -> None:
    counts = (1_000, 1_001, record_check.NATIVE_RECORDS, record_check.NATIVE_RECORDS + 1)
    for checker, at_once in ((native, counts[:3]), (None, ())):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record_check, "_native", checker)
            headers = [read_header(batch_with(b"", count)) for count in counts]
            assert [header.record_count for header in headers if is_checked_quickly(header)] == list(at_once)
            assert not is_checked_quickly(read_header(batch_with(b"", 1, Compression.lz4)))


def test_the_module_counts_the_batches_that_it_read(native: Native) -> None:
    before = native.handled()["check_records"]
    body = encode_record(0, 0, None, b"v")
    assert native.check_records(body, 0, 1, 5) == (len(body), 5, True)
    for bad in (body[:-1], b""):
        with pytest.raises(ValueError):
            native.check_records(bad, 0, 1, 5)
    assert native.handled()["check_records"] == before + 1
