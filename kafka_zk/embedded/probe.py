"""Ask a broker over a plain socket who is in the cluster and who leads: how a starter knows that a cluster is ready."""

import socket
import struct
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.codec import Message
from kafka_zk.protocol.errors import ErrorCode, ProtocolError

METADATA_VERSION = 1  # the first with the controller's id
LIST_OFFSETS_VERSION = 1
LATEST = -1
TIMEOUT_S = 2
_RESPONSE_HEADER_SIZE = 4
_LARGEST_ANSWER_BYTES = 100 << 20
_NOT_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
)


class ClusterView(NamedTuple):
    """What one broker knows: ids of the live brokers, and the controller's id (-1: none known)."""

    broker_ids: frozenset[int]
    controller_id: int


def ask_broker(host: str, port: int) -> ClusterView | None:
    """One broker's view of the cluster, or None while it does not answer."""
    message = _ask(host, port, ApiKey.METADATA, METADATA_VERSION, codec.request(ApiKey.METADATA)(topics=[]))
    if message is None:
        return None
    return ClusterView(frozenset(broker.node_id for broker in message.brokers), message.controller_id)


def ask_leaders(host: str, port: int) -> dict[TopicPartition, int] | None:
    """The leaders of all partitions that have one, as a broker knows them; None while it does not answer."""
    message = _ask(host, port, ApiKey.METADATA, METADATA_VERSION, codec.request(ApiKey.METADATA)(topics=None))
    if message is None:
        return None
    return {
        TopicPartition(topic.name, partition.partition_index): partition.leader_id
        for topic in message.topics
        for partition in topic.partitions
        if partition.leader_id >= 0
    }


def ask_unserved(host: str, port: int, partitions: Iterable[TopicPartition]) -> set[TopicPartition] | None:
    """Those of the partitions that a broker does not lead yet; None while it does not answer.

    A refusal that no waiting changes (a configuration that is not allowed, a failed disk) is an answer.
    """
    request = codec.request(ApiKey.LIST_OFFSETS)
    topics = [
        request.ListOffsetsTopic(
            name=topic,
            partitions=[
                request.ListOffsetsTopic.ListOffsetsPartition(partition_index=tp.partition, timestamp=LATEST)
                for tp in group
            ],
        )
        for topic, group in groupby(sorted(partitions), key=lambda tp: tp.topic)
    ]
    message = _ask(host, port, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, request(replica_id=-1, topics=topics))
    if message is None:
        return None
    return {
        TopicPartition(topic.name, partition.partition_index)
        for topic in message.topics
        for partition in topic.partitions
        if partition.error_code in _NOT_YET
    }


def _ask(host: str, port: int, api_key: ApiKey, version: int, request: Message) -> Message | None:
    frame = codec.encode_request(api_key, version, 0, "kafka-zk-probe", request)
    try:
        with socket.create_connection((host, port), TIMEOUT_S) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            (size_bytes,) = struct.unpack(">i", _receive(connection, 4))
            if not 0 <= size_bytes <= _LARGEST_ANSWER_BYTES:
                return None
            answer = _receive(connection, size_bytes)
        return codec.decode_response(api_key, version, memoryview(answer)[_RESPONSE_HEADER_SIZE:])
    except (OSError, ProtocolError):
        return None


def _receive(connection: socket.socket, size_bytes: int) -> bytearray:
    received = bytearray()
    while len(received) < size_bytes:
        chunk = connection.recv(size_bytes - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        received += chunk
    return received
