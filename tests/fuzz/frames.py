"""Frames that no client would send: a seeded source of valid requests, and of ways to spoil them.

``requests`` builds a request of any API in any version from its field table, with values that reach deep into the
handlers (existing topics, small numbers, real batches) or that no code expects. ``spoil`` changes bytes, lengths and
counts, cuts, repeats and joins. The same seed gives the same frames.
"""

import random
import struct
import uuid
from collections.abc import Callable
from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.field_table import Field, Table
from kafka_zk.protocol.request import request_header
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

TOPICS = ("fuzzed", "fuzzed.too")
NAMES = (*TOPICS, "", "x", "__consumer_offsets", "..", "../../tmp/escaped", "a/b", "\0", "é€😀", "a" * 249, "b" * 300)
NUMBERS = (0, 1, 2, -1, -2, -3, 3, 100, 127, 128, 255, 1000)
EDGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
LONGEST_FRAME_BYTES = 64 * 1024

FETCH = int(ApiKey.FETCH)


def prefixed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def request(rnd: random.Random, api_key: int, version: int) -> bytes:
    """A well-formed request with its header, but without the size prefix."""
    cls = codec.request(api_key)
    message = _message(cls.table, version, rnd)
    if api_key == FETCH and rnd.random() < 0.9:
        message.max_wait_ms = rnd.choice((0, 1, 5))
    body = codec.encode_body(message, api_key, version)
    client_id = rnd.choice(("fuzz", "", None, "é" * 50))
    return request_header(api_key, version, rnd.getrandbits(31), client_id) + body


def _message(table: Table, version: int, rnd: random.Random) -> Any:
    values = {field.name: _value(field, version, rnd) for field in table.fields if field.versions.include(version)}
    return table.message_class(**values)


def _value(field: Field, version: int, rnd: random.Random) -> Any:
    if field.nullable_versions.include(version) and rnd.random() < 0.2:
        return None
    if field.struct is not None and field.is_array:
        return [_message(field.struct, version, rnd) for _ in range(rnd.choice((0, 1, 1, 1, 2, 4)))]
    if field.is_array:
        return [_simple(field.type_name, rnd) for _ in range(rnd.choice((0, 1, 2, 5)))]
    if field.struct is not None:
        return _message(field.struct, version, rnd)
    return _simple(field.type_name, rnd)


def _simple(type_name: str, rnd: random.Random) -> Any:
    if type_name in EDGES:
        return _number(EDGES[type_name], rnd)
    values: dict[str, Callable[[], Any]] = {
        "uint16": lambda: rnd.randint(0, 65535),
        "float64": rnd.random,
        "bool": lambda: rnd.random() < 0.5,
        "string": lambda: rnd.choice(TOPICS) if rnd.random() < 0.6 else rnd.choice(NAMES),
        "bytes": lambda: rnd.randbytes(rnd.choice((0, 1, 9, 300))),
        "records": lambda: _records(rnd),
        "uuid": lambda: uuid.UUID(int=rnd.getrandbits(128)),
    }
    return values[type_name]()


def _number(bits: int, rnd: random.Random) -> int:
    edge: int = 2**bits
    if rnd.random() < 0.8:
        number: int = rnd.choice(NUMBERS)
        return max(-edge, min(edge - 1, number))
    return rnd.choice((-edge, edge - 1, rnd.randint(-edge, edge - 1)))


def _records(rnd: random.Random) -> bytes:
    """A batch, sometimes damaged under a valid CRC."""
    builder = RecordBatchBuilder(rnd.choice(list(Compression)))
    for _ in range(rnd.choice((1, 1, 3))):
        builder.append(rnd.choice((0, -1, 1_700_000_000_000)), rnd.choice((None, b"key")), rnd.randbytes(9))
    batch = bytearray(builder.build())
    if rnd.random() < 0.3:
        batch[rnd.randrange(len(batch))] ^= 1 << rnd.randrange(8)
    return bytes(batch) + rnd.choice((b"", b"", b"", b"\0", bytes(batch)))


# -- spoiling ----------------------------------------------------------------------------------------------------------


def _flip(frame: bytearray, rnd: random.Random) -> None:
    frame[rnd.randrange(len(frame))] ^= 1 << rnd.randrange(8)


def _byte(frame: bytearray, rnd: random.Random) -> None:
    frame[rnd.randrange(len(frame))] = rnd.choice((0, 1, 0x7F, 0x80, 0xFF, rnd.randrange(256)))


def _cut(frame: bytearray, rnd: random.Random) -> None:
    del frame[rnd.randrange(len(frame)) :]


def _remove(frame: bytearray, rnd: random.Random) -> None:
    start = rnd.randrange(len(frame))
    del frame[start : start + rnd.randint(1, 8)]


def _insert(frame: bytearray, rnd: random.Random) -> None:
    start = rnd.randrange(len(frame) + 1)
    frame[start:start] = rnd.randbytes(rnd.randint(1, 8))


def _fill(frame: bytearray, rnd: random.Random) -> None:
    start = rnd.randrange(len(frame) + 1)
    frame[start:start] = bytes([rnd.choice((0, 1, 2, 0x7F, 0x80, 0xFF))]) * rnd.choice((10, 1000, 30_000))


def _size(frame: bytearray, rnd: random.Random) -> None:
    """Replace some four bytes by a false length."""
    start = rnd.randrange(max(1, len(frame) - 3))
    frame[start : start + 4] = struct.pack(">i", rnd.choice((-2, -1, 0, 1, 255, 65536, 2**24, 2**31 - 1, -(2**31))))


def _repeat(frame: bytearray, rnd: random.Random) -> None:
    start = rnd.randrange(len(frame))
    piece = frame[start : start + rnd.randint(1, 64)]
    frame[start:start] = piece * rnd.randint(1, 200)


def _version(frame: bytearray, rnd: random.Random) -> None:
    """Send the body of one version under another version's number."""
    frame[2:4] = struct.pack(">h", rnd.choice((0, 1, 2, 3, 4, 5, 7, 9, 12, 13, 17, 18, -1, 32767)))


def _api(frame: bytearray, rnd: random.Random) -> None:
    frame[:2] = struct.pack(">h", rnd.choice((*range(70), -1, 999)))


_SPOILERS = (_flip, _flip, _byte, _byte, _cut, _remove, _insert, _fill, _size, _repeat, _version, _api)


def spoil(frame: bytes, rnd: random.Random) -> bytes:
    spoilt = bytearray(frame)
    for _ in range(rnd.choice((1, 1, 1, 2, 3, 8))):
        if spoilt:
            rnd.choice(_SPOILERS)(spoilt, rnd)
    return bytes(spoilt[:LONGEST_FRAME_BYTES])


class FrameSource:
    """Bytes to send, size prefix included.

    Args:
        versions: lowest and highest version of each API to use.
    """

    def __init__(self, seed: int, versions: dict[ApiKey, tuple[int, int]]) -> None:
        self._rnd = random.Random(seed)
        self._versions = sorted((int(key), low, high) for key, (low, high) in versions.items())

    def next(self) -> bytes:
        rnd = self._rnd
        kind = rnd.random()
        if kind < 0.1:
            return rnd.randbytes(rnd.choice((1, 4, 5, 12, 100, 5000)))  # not even a size
        if kind < 0.2:
            return prefixed(rnd.randbytes(rnd.choice((0, 1, 8, 10, 14, 60, 1000, 20_000))))
        api_key, low, high = rnd.choice(self._versions)
        frame = request(rnd, api_key, rnd.randint(low, high))
        if kind < 0.35:
            return prefixed(frame)
        if kind < 0.4:  # a false size before a good frame
            return struct.pack(">i", max(-(2**31), len(frame) + rnd.choice((-9, -1, 1, 9, 2**20, -(2**31))))) + frame
        return prefixed(spoil(frame, rnd))
