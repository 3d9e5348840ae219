"""Ask a broker over a plain socket who is in the cluster: how a starter knows that a cluster is ready."""

import socket
import struct
from typing import NamedTuple

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ProtocolError

METADATA_VERSION = 1  # the first with the controller's id
TIMEOUT_S = 2
_RESPONSE_HEADER_SIZE = 4
_LARGEST_ANSWER_BYTES = 1 << 20


class ClusterView(NamedTuple):
    """What one broker knows: ids of the live brokers, and the controller's id (-1: none known)."""

    broker_ids: frozenset[int]
    controller_id: int


def ask_broker(host: str, port: int) -> ClusterView | None:
    """One broker's view of the cluster, or None while it does not answer."""
    request = codec.request(ApiKey.METADATA)(topics=[])
    frame = codec.encode_request(ApiKey.METADATA, METADATA_VERSION, 0, "kafka-zk-probe", request)
    try:
        with socket.create_connection((host, port), TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            (size_bytes,) = struct.unpack(">i", _receive(connection, 4))
            if not 0 <= size_bytes <= _LARGEST_ANSWER_BYTES:
                return None
            answer = _receive(connection, size_bytes)
        message = codec.decode_response(ApiKey.METADATA, METADATA_VERSION, answer[_RESPONSE_HEADER_SIZE:])
    except (OSError, ProtocolError):
        return None
    return ClusterView(frozenset(broker.node_id for broker in message.brokers), message.controller_id)


def _receive(connection: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        chunk = connection.recv(size_bytes - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        received += chunk
    return received
