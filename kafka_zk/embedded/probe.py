"""Asks brokers whether the cluster is ready."""

import contextlib
import socket
import struct
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.codec import Message
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity, SaslSettings
from kafka_zk.security.errors import AuthenticationFailed

METADATA_VERSION = 1  # the first version with the controller's id
LIST_OFFSETS_VERSION = 1
FIND_COORDINATOR_VERSION = 1  # the first version with the key's type
SASL_VERSION = 1
LATEST = -1
TIMEOUT_S = 2
_RESPONSE_HEADER_SIZE = 4
_OF_GROUP = 0  # the key type of groups in FindCoordinator
_LARGEST_ANSWER_BYTES = 100 << 20
_NOT_YET = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
)


class ClusterView(NamedTuple):
    """The ids of the live brokers, and of the controller (-1: unknown)."""

    broker_ids: frozenset[int]
    controller_id: int


def ask_broker(host: str, port: int, login: ClientSecurity = NO_SECURITY) -> ClusterView | None:
    """The broker's view; None if the broker does not accept the connection or does not respond."""
    message = _ask(host, port, login, ApiKey.METADATA, METADATA_VERSION, codec.request(ApiKey.METADATA)(topics=[]))
    if message is None:
        return None
    return ClusterView(frozenset(broker.node_id for broker in message.brokers), message.controller_id)


def ask_leaders(host: str, port: int, login: ClientSecurity = NO_SECURITY) -> dict[TopicPartition, int] | None:
    """The leaders of all partitions that have one, according to a broker; None if it does not respond."""
    message = _ask(host, port, login, ApiKey.METADATA, METADATA_VERSION, codec.request(ApiKey.METADATA)(topics=None))
    if message is None:
        return None
    return {
        TopicPartition(topic.name, partition.partition_index): partition.leader_id
        for topic in message.topics
        for partition in topic.partitions
        if partition.leader_id >= 0
    }


def ask_coordinator(host: str, port: int, group: str, login: ClientSecurity = NO_SECURITY) -> int:
    """The broker id of a group's coordinator, according to a broker; -1 if it knows none or does not respond."""
    request = codec.request(ApiKey.FIND_COORDINATOR)(key=group, key_type=_OF_GROUP)
    message = _ask(host, port, login, ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, request)
    return -1 if message is None else int(message.node_id)


def ask_unserved(
    host: str, port: int, partitions: Iterable[TopicPartition], login: ClientSecurity = NO_SECURITY
) -> set[TopicPartition] | None:
    """The partitions among ``partitions`` that the broker does not serve; None if it does not respond.

    A partition with a permanent error (an invalid configuration, a failed disk) counts as served.
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
    asked = request(replica_id=-1, topics=topics)
    message = _ask(host, port, login, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, asked)
    if message is None:
        return None
    return {
        TopicPartition(topic.name, partition.partition_index)
        for topic in message.topics
        for partition in topic.partitions
        if partition.error_code in _NOT_YET
    }


def _ask(
    host: str, port: int, login: ClientSecurity, api_key: ApiKey, version: int, request: Message
) -> Message | None:
    try:
        with _connected(host, port, login) as connection:
            return _answer(connection, api_key, version, request)
    except (OSError, ProtocolError, AuthenticationFailed):
        return None


@contextlib.contextmanager
def _connected(host: str, port: int, login: ClientSecurity) -> Iterator[socket.socket]:
    with contextlib.ExitStack() as sockets:
        connection = sockets.enter_context(socket.create_connection((host, port), TIMEOUT_S))
        connection.settimeout(TIMEOUT_S)
        if login.tls is not None:
            from kafka_zk.security.tls import client_context

            context = client_context(login.tls)
            connection = sockets.enter_context(context.wrap_socket(connection, server_hostname=host))
        if login.sasl is not None:
            _log_in(connection, login.sasl, host)
        yield connection


def _log_in(connection: socket.socket, sasl: SaslSettings, host: str) -> None:
    from kafka_zk.protocol.sasl_exchange import sasl_exchange
    from kafka_zk.security.sasl_client import sasl_client

    exchange = sasl_exchange(sasl.mechanism, sasl_client(sasl, SYSTEM_RANDOM, host))
    step = next(exchange)
    with contextlib.suppress(StopIteration):
        while True:
            request = codec.request(step.api_key)(**step.fields)
            step = exchange.send(_answer(connection, step.api_key, SASL_VERSION, request))


def _answer(connection: socket.socket, api_key: ApiKey, version: int, request: Message) -> Message:
    frame = codec.encode_request(api_key, version, 0, "kafka-zk-probe", request)
    connection.sendall(struct.pack(">i", len(frame)) + frame)
    (size_bytes,) = struct.unpack(">i", _receive(connection, 4))
    if not 0 <= size_bytes <= _LARGEST_ANSWER_BYTES:
        raise ProtocolError(f"an answer of {size_bytes} bytes")
    answer = _receive(connection, size_bytes)
    return codec.decode_response(api_key, version, memoryview(answer)[_RESPONSE_HEADER_SIZE:])


def _receive(connection: socket.socket, size_bytes: int) -> bytearray:
    received = bytearray()
    while len(received) < size_bytes:
        chunk = connection.recv(size_bytes - len(received))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        received += chunk
    return received
