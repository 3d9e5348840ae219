"""An LZ4 frame's header checksum: correct, or as old clients expect it.

Kafka's first LZ4 writer wrongly included the magic number. Messages of magic 0 keep this mistake, because 0.8 clients
verify the checksum. Reading ignores it.
Source: KIP-57, KafkaLZ4BlockOutputStream.java@3.9. Tests: tests/storage/records/test_compression.py.
"""

from kafka_zk.storage.files.errors import CorruptRecord

_MAGIC_SIZE = 4
_CONTENT_SIZE_FLAG = 0x08
_PRIME_1, _PRIME_2, _PRIME_3 = 2654435761, 2246822519, 3266489917
_PRIME_4, _PRIME_5 = 668265263, 374761393
_MASK = 0xFFFFFFFF


def xxhash32_short(data: bytes) -> int:
    """XXH32 with seed 0, of at most 15 bytes (the longest header)."""
    assert len(data) < 16
    value = (_PRIME_5 + len(data)) & _MASK
    whole = len(data) // 4 * 4
    for index in range(0, whole, 4):
        value = (value + int.from_bytes(data[index : index + 4], "little") * _PRIME_3) & _MASK
        value = _rotate(value, 17) * _PRIME_4 & _MASK
    for byte in data[whole:]:
        value = (value + byte * _PRIME_5) & _MASK
        value = _rotate(value, 11) * _PRIME_1 & _MASK
    value ^= value >> 15
    value = value * _PRIME_2 & _MASK
    value ^= value >> 13
    value = value * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def with_checksum(frame: bytes, *, broken: bool) -> bytes:
    """The frame with another header checksum: the old wrong one if ``broken``, else the correct one.

    Raises: CorruptRecord if there is no frame header.
    """
    if len(frame) <= _MAGIC_SIZE:
        raise CorruptRecord("lz4: no frame header")
    end = _MAGIC_SIZE + (10 if frame[_MAGIC_SIZE] & _CONTENT_SIZE_FLAG else 2)
    if len(frame) <= end:
        raise CorruptRecord("lz4: the frame header is cut off")
    covered = frame[:end] if broken else frame[_MAGIC_SIZE:end]
    return frame[:end] + bytes([xxhash32_short(covered) >> 8 & 0xFF]) + frame[end + 1 :]
