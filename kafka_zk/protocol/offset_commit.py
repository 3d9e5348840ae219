"""The answer to OffsetCommit, written without an object for each partition: there may be hundreds in every commit.

Source: OffsetCommitResponse.json@3.9.
"""

import struct
from collections.abc import Callable, Sequence

from kafka_zk.protocol.api_keys import FLEXIBLE_SINCE, ApiKey
from kafka_zk.protocol.primitives import length, string

_THROTTLE_SINCE = 3
_NO_THROTTLE = bytes(4)
_PARTITION = struct.Struct(">ih")
_FLEXIBLE_PARTITION = struct.Struct(">ihx")  # no tagged fields
_NO_TAGS = b"\0"


def row_encoder(version: int) -> Callable[[int, int], bytes]:
    """Makes bytes of a partition and its error code."""
    return _FLEXIBLE_PARTITION.pack if version >= FLEXIBLE_SINCE[ApiKey.OFFSET_COMMIT] else _PARTITION.pack


def encode_response(version: int, topics: Sequence[tuple[str, Sequence[bytes]]]) -> bytes:
    """The body: for each topic the rows of its partitions."""
    flexible = version >= FLEXIBLE_SINCE[ApiKey.OFFSET_COMMIT]
    parts = [_NO_THROTTLE] if version >= _THROTTLE_SINCE else []
    parts.append(length(len(topics), flexible))
    tags = _NO_TAGS if flexible else b""
    for name, rows in topics:
        parts += (string(name, flexible), length(len(rows), flexible), b"".join(rows), tags)
    return b"".join(parts) + tags
