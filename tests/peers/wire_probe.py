"""Hand-written requests for a broker's readiness and controller, an unchanged batch, and the batch's producer.

They need no client library, so the response comes within milliseconds of the broker's readiness, and a batch can be
sent twice.
"""

from __future__ import annotations

import socket
import struct

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import is_flexible
from kafka_zk.protocol.fetch import FetchedPartition, read_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request

_READY_TIMEOUT_S = 2.0
_ANSWER_TIMEOUT_S = 60.0
_CORRELATION_ID = 7
_CLIENT_ID = b"probe"
_PRODUCE = 0
_FETCH = 1
_METADATA = 3
_OFFSET_COMMIT = 8
_DESCRIBE_GROUPS = 15
_API_VERSIONS = 18
_WRITE_TXN_MARKERS = 27
_INCREMENTAL_ALTER_CONFIGS = 44
_DESCRIBE_PRODUCERS = 61
_CONSUMER_GROUP_HEARTBEAT = 68
_CONSUMER_GROUP_DESCRIBE = 69
_NO_TAGS = b"\0"
_BROKER = 4


class Connection:
    """A connection to a broker for many requests, one after the other."""

    def __init__(self, port: int, timeout_s: float = _ANSWER_TIMEOUT_S) -> None:
        """Raises: OSError if the port is closed."""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def ask(self, api_key: int, api_version: int, body: bytes) -> bytes:
        """The response body (after the correlation id). Raises: OSError if there is no response."""
        header = struct.pack(">hhih", api_key, api_version, _CORRELATION_ID, len(_CLIENT_ID)) + _CLIENT_ID
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
        (size,) = struct.unpack(">i", _receive(self._socket, 4))
        return _receive(self._socket, size)[4:]

    def fetch(self, topic: str, offset: int, max_bytes: int, *, committed: bool) -> FetchedPartition:
        """Fetch v11 of partition 0, which does not wait. Raises: OSError."""
        wanted = FetchTopic(topic, None, [FetchPartition(0, offset, max_bytes)])
        body = write_fetch_request(11, FetchRequest(0, 1, [wanted], isolation_level=int(committed)))
        answer = read_fetch_response(11, memoryview(self.ask(_FETCH, 11, body)))
        return answer.topics[0].partitions[0]

    def produce(self, topic: str, partition: int, batch: bytes, *, version: int = 3,
                transactional_id: str | None = None) -> tuple[int, int]:  # fmt: skip
        """Like the function ``produce``."""
        name = struct.pack(">h", -1) if transactional_id is None else _text(transactional_id)
        front = (name if version >= 3 else b"") + struct.pack(">hii", -1, 30_000, 1) + _text(topic)
        body = front + struct.pack(">iii", 1, partition, len(batch)) + batch
        answer = self.ask(_PRODUCE, version, body)
        error, base_offset = struct.unpack_from(">hq", answer, 4 + len(_text(topic)) + 4 + 4)
        return error, base_offset


def _ask(port: int, api_key: int, api_version: int, body: bytes, timeout_s: float = _ANSWER_TIMEOUT_S) -> bytes:
    """Like ``Connection.ask``, over a connection of its own."""
    with Connection(port, timeout_s) as connection:
        return connection.ask(api_key, api_version, body)


def _receive(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the broker closed the connection")
        data += part
    return bytes(data)


def brokers_and_controller(port: int) -> tuple[dict[int, int], int]:
    """Metadata v1 without topics: the port of each live broker id, and the controller's id (-1: none).

    Raises: OSError if the broker does not respond.
    """
    body = _ask(port, _METADATA, 1, struct.pack(">i", 0), _READY_TIMEOUT_S)
    (count,) = struct.unpack_from(">i", body)
    position = 4
    brokers = {}
    for _ in range(count):
        node_id, host_size = struct.unpack_from(">ih", body, position)
        position += 6 + host_size
        broker_port, rack_size = struct.unpack_from(">ih", body, position)
        position += 6 + max(rack_size, 0)
        brokers[node_id] = broker_port
    (controller_id,) = struct.unpack_from(">i", body, position)
    return brokers, controller_id


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def produce(
    port: int, topic: str, partition: int, batch: bytes, *, version: int = 3, transactional_id: str | None = None
) -> tuple[int, int]:
    """Produce v0 to v8 with acks=all: the error code and the base offset of the batch or set. Raises: OSError."""
    with Connection(port) as connection:
        return connection.produce(topic, partition, batch, version=version, transactional_id=transactional_id)


def fetch_error(port: int, version: int, topic: str, partition: int, offset: int) -> int:
    """Fetch v0 to v3 of one partition: its error code. Raises: OSError."""
    max_bytes = 1_000_000
    front = struct.pack(">iii", -1, 100, 1) + (struct.pack(">i", max_bytes) if version >= 3 else b"")
    body = front + struct.pack(">i", 1) + _text(topic) + struct.pack(">iiqi", 1, partition, offset, max_bytes)
    answer = _ask(port, _FETCH, version, body)
    throttle_time_size = 4 if version >= 1 else 0
    (error,) = struct.unpack_from(">h", answer, throttle_time_size + 4 + len(_text(topic)) + 4 + 4)
    return int(error)


def producers(port: int, topic: str, partition: int) -> set[tuple[int, int, int, int]]:
    """DescribeProducers v0: producer id, epoch, last sequence and last timestamp of each. Raises: OSError."""
    asked = codec.request(_DESCRIBE_PRODUCERS)
    named = asked.TopicRequest(name=topic, partition_indexes=[partition])
    body = bytes(codec.encode_body(asked(topics=[named]), _DESCRIBE_PRODUCERS, 0))
    answer = codec.decode_response(_DESCRIBE_PRODUCERS, 0, _ask(port, _DESCRIBE_PRODUCERS, 0, _NO_TAGS + body)[1:])
    (found,) = answer.topics[0].partitions
    return {
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
        for each in found.active_producers
    }


def write_marker(
    port: int, topic: str, producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int
) -> int:
    """WriteTxnMarkers v1 for partition 0: its error code. Raises: OSError."""
    asked = codec.request(_WRITE_TXN_MARKERS)
    marker = asked.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=commit,
        topics=[asked.WritableTxnMarker.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    body = bytes(codec.encode_body(asked(markers=[marker]), _WRITE_TXN_MARKERS, 1))
    answer = codec.decode_response(_WRITE_TXN_MARKERS, 1, _ask(port, _WRITE_TXN_MARKERS, 1, _NO_TAGS + body)[1:])
    return int(answer.markers[0].topics[0].partitions[0].error_code)


def fetch_committed(port: int, topic: str, offset: int, max_bytes: int = 1_000_000) -> FetchedPartition:
    """Fetch v11 of partition 0, committed records only. Raises: OSError."""
    with Connection(port) as connection:
        return connection.fetch(topic, offset, max_bytes, committed=True)


def open_transactions(port: int, topic: str) -> dict[int, tuple[int, int, int, int]]:
    """DescribeProducers v0 of partition 0: epoch, last sequence, coordinator epoch and first offset of the open
    transaction, by producer id. Raises: OSError."""
    asked = codec.request(_DESCRIBE_PRODUCERS)
    named = asked.TopicRequest(name=topic, partition_indexes=[0])
    body = bytes(codec.encode_body(asked(topics=[named]), _DESCRIBE_PRODUCERS, 0))
    answer = codec.decode_response(_DESCRIBE_PRODUCERS, 0, _ask(port, _DESCRIBE_PRODUCERS, 0, _NO_TAGS + body)[1:])
    return {
        each.producer_id: (
            each.producer_epoch, each.last_sequence, each.coordinator_epoch, each.current_txn_start_offset
        )
        for each in answer.topics[0].partitions[0].active_producers
    }  # fmt: skip


def group_members(port: int, group_id: str) -> tuple[str, set[str]]:
    """DescribeGroups v0: the group's state and the client ids of its members. Raises: OSError."""
    body = struct.pack(">i", 1) + _text(group_id)
    answer = codec.decode_response(_DESCRIBE_GROUPS, 0, _ask(port, _DESCRIBE_GROUPS, 0, body))
    (group,) = answer.groups
    return group.group_state, {member.client_id for member in group.members}


def offered_versions(port: int) -> dict[int, tuple[int, int]]:
    """ApiVersions v0: lowest and highest version by API key. Raises: OSError."""
    answer = codec.decode_response(_API_VERSIONS, 0, _ask(port, _API_VERSIONS, 0, b""))
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def consumer_group_heartbeat(port: int, group_id: str, topic: str) -> bytes:
    """ConsumerGroupHeartbeat v0 of a new member: the body of the answer. Raises: OSError."""
    request = codec.request(_CONSUMER_GROUP_HEARTBEAT)(
        group_id=group_id, member_id="", member_epoch=0, instance_id=None, rack_id=None, rebalance_timeout_ms=5000,
        subscribed_topic_names=[topic], server_assignor=None, topic_partitions=[],
    )  # fmt: skip
    body = bytes(codec.encode_body(request, _CONSUMER_GROUP_HEARTBEAT, 0))
    return _ask(port, _CONSUMER_GROUP_HEARTBEAT, 0, _NO_TAGS + body)[1:]


def consumer_group_describe(port: int, group_ids: list[str]) -> bytes:
    """ConsumerGroupDescribe v0: the body of the answer. Raises: OSError."""
    request = codec.request(_CONSUMER_GROUP_DESCRIBE)(group_ids=group_ids, include_authorized_operations=True)
    body = bytes(codec.encode_body(request, _CONSUMER_GROUP_DESCRIBE, 0))
    return _ask(port, _CONSUMER_GROUP_DESCRIBE, 0, _NO_TAGS + body)[1:]


def commit_offset(port: int, group_id: str, generation: int, member_id: str, tp: TopicPartition, offset: int) -> int:
    """OffsetCommit v2 of one partition, to the group's coordinator: the error code. Raises: OSError."""
    no_retention = -1
    front = _text(group_id) + struct.pack(">i", generation) + _text(member_id) + struct.pack(">qi", no_retention, 1)
    body = front + _text(tp.topic) + struct.pack(">iiq", 1, tp.partition, offset) + _text("")
    answer = _ask(port, _OFFSET_COMMIT, 2, body)
    (error,) = struct.unpack_from(">h", answer, 4 + len(_text(tp.topic)) + 4 + 4)
    return int(error)


def set_default_broker_config(port: int, key: str, value: str) -> int:
    """IncrementalAlterConfigs v0 of the default of all brokers, which librdkafka does not ask for: the error code.
    Raises: OSError."""
    asked = codec.request(_INCREMENTAL_ALTER_CONFIGS)
    entry = asked.AlterConfigsResource.AlterableConfig(name=key, config_operation=0, value=value)
    resource = asked.AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=[entry])
    body = bytes(codec.encode_body(asked(resources=[resource], validate_only=False), _INCREMENTAL_ALTER_CONFIGS, 0))
    answer = _ask(port, _INCREMENTAL_ALTER_CONFIGS, 0, body)
    return int(codec.decode_response(_INCREMENTAL_ALTER_CONFIGS, 0, answer).responses[0].error_code)


def is_ready(port: int, broker_count: int = 1) -> bool:
    """Whether the broker responds to Metadata and knows `broker_count` brokers and the controller."""
    try:
        brokers, controller_id = brokers_and_controller(port)
    except OSError:
        return False
    return len(brokers) >= broker_count and controller_id in brokers


def ask(port: int, api_key: int, api_version: int, message: codec.Message) -> codec.Message:
    """The response to any request that the codec knows. Raises: OSError."""
    flexible = is_flexible(api_key, api_version)
    body = bytes(codec.encode_body(message, api_key, api_version))
    answer = _ask(port, api_key, api_version, _NO_TAGS + body if flexible else body)
    return codec.decode_response(api_key, api_version, answer[1:] if flexible else answer)
