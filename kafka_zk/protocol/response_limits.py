"""How large a response may be, given its request: a client stops a peer that announces more before it takes memory.

Tests: tests/kafka_zk/network/test_client.py.
"""

import struct

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.primitives import Buffer

MAX_RESPONSE_BYTES = 104857600
"""Of responses that say as much as a cluster has, for example Metadata; Kafka's default of socket.request.max.bytes."""

MAX_BATCH_BYTES = 104857600
"""A Fetch response exceeds the request's max_bytes by one batch (KIP-74), and no request brought a larger one."""

MAX_RESPONSE_ELEMENTS = 1_000_000
"""In all arrays of a response together: 50,000 partitions with three replicas have half as many in Metadata."""

_SMALLEST_BYTES = 64 * 1024
_GROWTH = 8
"""The response says at most 8 bytes for each of the request's, for example an offset and an epoch for a partition."""

_PER_REQUEST = frozenset(
    (
        ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.WRITE_TXN_MARKERS, ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.LIST_OFFSETS, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID,
        ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
    )
)  # fmt: skip
"""APIs that answer only what the request names, among them all that brokers ask each other but Fetch and
ControlledShutdown, and those of a peer that is not known yet."""

_INT32 = struct.Struct(">i")
_FETCH_MAX_BYTES_SINCE = 3
_FETCH_WITHOUT_REPLICA_ID_SINCE = 15


def max_response_bytes(api_key: int, version: int, body: Buffer, body_bytes: int) -> int:
    """For the request whose body begins with ``body`` and has ``body_bytes``."""
    if api_key == ApiKey.FETCH:
        return MAX_BATCH_BYTES + _fetch_max_bytes(version, body)
    if api_key in _PER_REQUEST:
        return _SMALLEST_BYTES + _GROWTH * body_bytes
    return MAX_RESPONSE_BYTES


def _fetch_max_bytes(version: int, body: Buffer) -> int:
    """``max_bytes`` of a Fetch request; it follows the replica id, which newer versions have not, and two numbers."""
    position = 8 if version >= _FETCH_WITHOUT_REPLICA_ID_SINCE else 12
    if version < _FETCH_MAX_BYTES_SINCE or len(body) < position + _INT32.size:
        return MAX_RESPONSE_BYTES
    max_bytes: int = _INT32.unpack_from(body, position)[0]
    return max(0, min(max_bytes, MAX_RESPONSE_BYTES))
