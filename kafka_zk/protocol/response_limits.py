"""Size limits of responses. A client disconnects before it allocates memory for a larger response."""

import struct

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.primitives import Buffer

MAX_RESPONSE_BYTES = 104857600
"""Limit of responses about the whole cluster, for example Metadata; equals Kafka's default socket.request.max.bytes."""

MAX_BATCH_BYTES = 104857600
"""A Fetch response exceeds max_bytes by at most one batch (KIP-74), and batches are no larger than requests."""

MAX_RESPONSE_ELEMENTS = 1_000_000
"""Limit of all arrays of a response together; Metadata of 50,000 partitions with three replicas has half as many."""

_SMALLEST_BYTES = 64 * 1024
_GROWTH = 8
"""Response bytes per request byte, for example an offset and an epoch per partition."""

_PER_REQUEST = frozenset(
    (
        ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS, ApiKey.WRITE_TXN_MARKERS, ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.LIST_OFFSETS, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID,
        ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN, ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
    )
)  # fmt: skip
"""APIs whose responses contain only items named in the request. They include all APIs between brokers, except Fetch and
ControlledShutdown, and all APIs before authentication.
"""

_INT32 = struct.Struct(">i")
_FETCH_MAX_BYTES_SINCE = 3
_FETCH_WITHOUT_REPLICA_ID_SINCE = 15


def max_response_bytes(api_key: int, version: int, body: Buffer, body_bytes: int) -> int:
    if api_key == ApiKey.FETCH:
        return MAX_BATCH_BYTES + _fetch_max_bytes(version, body)
    if api_key in _PER_REQUEST:
        return _SMALLEST_BYTES + _GROWTH * body_bytes
    return MAX_RESPONSE_BYTES


def _fetch_max_bytes(version: int, body: Buffer) -> int:
    """The request's ``max_bytes``. A replica id (absent in newer versions) and two numbers precede it."""
    position = 8 if version >= _FETCH_WITHOUT_REPLICA_ID_SINCE else 12
    if version < _FETCH_MAX_BYTES_SINCE or len(body) < position + _INT32.size:
        return MAX_RESPONSE_BYTES
    max_bytes: int = _INT32.unpack_from(body, position)[0]
    return max(0, min(max_bytes, MAX_RESPONSE_BYTES))
