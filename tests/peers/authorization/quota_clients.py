"""Clients of brokers with quotas: the throttle in a response, and the administrator's changes of quotas."""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch import read_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.produce import (
    PartitionData,
    ProduceRequest,
    TopicData,
    read_produce_response,
    write_produce_request,
)
from kafka_zk.protocol.request import request_header, response_body_position
from tests.kafka_zk.broker.conftest import batch
from tests.peers import targets
from tests.peers.processes import wait_until

TOPIC = "limited"
_STEP_MS = 1_500
"""The throttle times of two brokers may differ by the age of a sample and by the brokers' own delays."""

LAST = "last-"
"""Prefix of the client ids that show whether quotas are in effect."""

PATIENT_MS = 60_000
_TIMED_OUT = 7  # a busy machine may exceed the request's timeout, but creates the topic all the same

Entity = Mapping[str, str | None]


class Client:
    """One connection of a client id."""

    def __init__(self, port: int, client_id: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 2 * PATIENT_MS / 1000)
        self._client_id = client_id

    def _ask(self, api_key: ApiKey, version: int, body: bytes, *, is_answered: bool = True) -> memoryview:
        frame = request_header(api_key, version, 7, self._client_id) + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        if not is_answered:
            return memoryview(b"")
        (size,) = struct.unpack(">i", self._received(4))
        answer = memoryview(self._received(size))
        return answer[response_body_position(answer, api_key, version) :]

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data

    def ask(self, api_key: ApiKey, version: int, values: Mapping[str, Any]) -> Any:
        message = _message(codec.request(api_key), values)
        body = bytes(codec.encode_body(message, api_key, version))
        return codec.decode_response(api_key, version, self._ask(api_key, version, body))

    def produce(self, size: int, version: int = 9, acks: int = 1) -> int:
        """The throttle time in ms."""
        topics = [TopicData(TOPIC, [PartitionData(0, batch(b"x" * size, timestamp_ms=int(time.time() * 1000)))])]
        body = b"".join(map(bytes, write_produce_request(version, ProduceRequest(None, acks, 10_000, topics))))
        answer = self._ask(ApiKey.PRODUCE, version, body, is_answered=acks != 0)
        if acks == 0:
            return 0
        response = read_produce_response(version, answer)
        assert response.topics[0].partitions[0].error_code == 0
        return response.throttle_time_ms

    def fetch(self, session: tuple[int, int] = (0, -1), version: int = 11) -> tuple[int, bool, int]:
        """The throttle time in ms, whether there were records, and the session."""
        topics = [FetchTopic(TOPIC, None, [FetchPartition(0, 0, 10_000_000)])]
        request = FetchRequest(100, 1, topics, 200_000, session_id=session[0], session_epoch=session[1])
        response = read_fetch_response(version, self._ask(ApiKey.FETCH, version, write_fetch_request(version, request)))
        assert response.error_code == 0
        has_records = any(each.records for topic in response.topics for each in topic.partitions)
        return response.throttle_time_ms, has_records, response.session_id

    def fetched_bytes(self) -> int:
        """The number of bytes of records in the response to a fetch of up to a megabyte."""
        topics = [FetchTopic(TOPIC, None, [FetchPartition(0, 0, 1_000_000)])]
        request = FetchRequest(100, 1, topics, 1_000_000)
        response = read_fetch_response(11, self._ask(ApiKey.FETCH, 11, write_fetch_request(11, request)))
        return sum(len(each.records or b"") for topic in response.topics for each in topic.partitions)

    def create(self, name: str, partitions: int, version: int) -> tuple[int, int]:
        """The throttle time in ms and the error code."""
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": []}
        values = {"topics": [topic], "timeout_ms": PATIENT_MS, "validate_only": False}
        answer = self.ask(ApiKey.CREATE_TOPICS, version, values)
        return answer.throttle_time_ms, answer.topics[0].error_code

    def delete(self, name: str, version: int) -> tuple[int, int]:
        """Like ``create``."""
        values = {"topics": [{"name": name, "topic_id": None}], "topic_names": [name], "timeout_ms": PATIENT_MS}
        answer = self.ask(ApiKey.DELETE_TOPICS, version, values)
        return answer.throttle_time_ms, answer.responses[0].error_code


@dataclass(frozen=True)
class Broker:
    """A broker of one target."""

    target: str
    port: int
    zookeeper: str

    @property
    def is_ours(self) -> bool:
        return self.target == targets.KAFKA_ZK

    def client(self, client_id: str) -> Client:
        return Client(self.port, client_id)

    def alter(self, entity: Entity, **values: float | None) -> tuple[int, str | None]:
        """The code and the message of one change; None removes a key."""
        entry = {
            "entity": [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in entity.items()],
            "ops": [{"key": key, "value": float(value or 0), "remove": value is None} for key, value in values.items()],
        }
        answer = self.client("admin").ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, {"entries": [entry], "validate_only": False})
        return answer.entries[0].error_code, answer.entries[0].error_message

    def limit(self, entity: Entity, **values: float) -> None:
        assert self.alter(entity, **values) == (0, None)
        self.wait_until_applied()

    def wait_until_applied(self) -> None:
        """Wait until the broker has applied all changes so far. Brokers apply changes in order, so this makes one more
        change, which throttles a client with a new id, and waits until that client is throttled."""
        name = f"{LAST}{uuid.uuid4()}"
        assert self.alter({"user": "ANONYMOUS", "client_id": name}, producer_byte_rate=1) == (0, None)
        wait_until(lambda: self.client(name).produce(10) > 0, PATIENT_MS / 1000, "the quotas", interval_s=0.2)

    def wait_for_coordinator(self, group: str) -> None:
        """Wait until the group has a coordinator; the first request creates the offsets topic."""

        def is_found() -> bool:
            return bool(self.client("admin").ask(ApiKey.FIND_COORDINATOR, 3, {"key": group}).error_code == 0)

        wait_until(is_found, PATIENT_MS / 1000, f"the coordinator of {group}")

    def describe(self, *components: tuple[str, int, str | None], strict: bool) -> list[Any]:
        wanted = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components]
        answer = self.client("admin").ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": wanted, "strict": strict})
        assert answer.error_code == 0
        return sorted(
            (
                sorted((each.entity_type, each.entity_name or "") for each in entry.entity),
                sorted((each.key, each.value) for each in entry.values),
            )
            for entry in answer.entries
        )


def _message(cls: Any, values: Mapping[str, Any]) -> Any:
    table = cls.table
    fields = {}
    for name, value in values.items():
        struct_table = table.field(name).struct
        if struct_table is not None and isinstance(value, list):
            value = [_message(struct_table.message_class, each) for each in value]
        fields[name] = value
    return cls(**fields)


def about(throttle_ms: int) -> int:
    """The throttle time in steps of _STEP_MS, so that similar times compare as equal."""
    return round(throttle_ms / _STEP_MS)


def told(answer: tuple[int, int]) -> tuple[bool, int]:
    """Whether the client must wait, and the error code."""
    throttle_ms, code = answer
    return throttle_ms > 0, 0 if code == _TIMED_OUT else code
