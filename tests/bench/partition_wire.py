"""Hand-written requests over thousands of partitions, because the client must cost next to nothing compared with the
broker.

One blocking connection to one broker, with old, plain versions of the APIs, to which both brokers respond alike.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey

CLIENT_ID = b"partitions"
_TIMEOUT_S = 600.0
_LATEST = -1
_NO_LEADER = -1
_LED = struct.Struct(">xxiii")  # after the error: partition, leader, count of replicas
_COUNT = struct.Struct(">i")
_LISTED = struct.Struct(">ihqq")  # partition, error, timestamp, offset
_PRODUCED = struct.Struct(">ihqq")  # partition, error, base offset, append time


class Refused(Exception):
    """The broker responded with an error to a request that must succeed."""


class Wire:
    """A connection; every method sends one request and reads its response."""

    def __init__(self, port: int, timeout_s: float = _TIMEOUT_S) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def send(self, api_key: int, version: int, body: bytes) -> None:
        """Send a request without waiting for its response, which ``receive`` returns."""
        header = struct.pack(">hhih", api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID
        self._socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def receive(self) -> bytes:
        """The body of the next response."""
        (size,) = struct.unpack(">i", self._take(4))
        return self._take(size)[4:]

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            part = self._socket.recv(1 << 20)
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            self._received += part
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def ping_ms(self) -> float:
        """The time that the broker takes to respond to ApiVersions, the cheapest request."""
        begun_s = time.perf_counter()
        self.send(ApiKey.API_VERSIONS, 0, b"")
        self.receive()
        return (time.perf_counter() - begun_s) * 1000

    def send_create(self, topics: Sequence[str], partitions: int, timeout_ms: int) -> None:
        """CreateTopics v1 for topics with replication factor 1; ``receive_create`` reads the response."""
        create = codec.request(ApiKey.CREATE_TOPICS)
        wanted = [
            create.CreatableTopic(
                name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
            )
            for name in topics
        ]
        message = create(topics=wanted, timeout_ms=timeout_ms, validate_only=False)
        self.send(ApiKey.CREATE_TOPICS, 1, bytes(codec.encode_body(message, ApiKey.CREATE_TOPICS, 1)))

    def receive_create(self) -> None:
        """Raises: Refused."""
        answer = codec.decode_response(ApiKey.CREATE_TOPICS, 1, self.receive())
        _require({topic.name: topic.error_code for topic in answer.topics})

    def delete(self, topic: str, timeout_ms: int) -> None:
        """DeleteTopics v1. Raises: Refused."""
        self.send(ApiKey.DELETE_TOPICS, 1, struct.pack(">i", 1) + _text(topic) + struct.pack(">i", timeout_ms))
        answer = codec.decode_response(ApiKey.DELETE_TOPICS, 1, self.receive())
        _require({result.name: result.error_code for result in answer.responses})

    def end_offsets(self, topic: str, partitions: Sequence[int]) -> dict[int, int]:
        """ListOffsets v1: the log ends of the partitions that respond without an error."""
        asked = b"".join(struct.pack(">iq", partition, _LATEST) for partition in partitions)
        body = struct.pack(">ii", -1, 1) + _text(topic) + struct.pack(">i", len(partitions)) + asked
        self.send(ApiKey.LIST_OFFSETS, 1, body)
        found = memoryview(self.receive())[4 + len(_text(topic)) + 4 :]
        return {partition: offset for partition, error, _, offset in _LISTED.iter_unpack(found) if not error}

    def unanswered(self, topic: str, partitions: Sequence[int]) -> list[int]:
        """The partitions that do not respond to ListOffsets yet."""
        answered = self.end_offsets(topic, partitions)
        return [partition for partition in partitions if partition not in answered]

    def metadata(self, topics: Sequence[str] | None = None) -> bytes:
        """Metadata v5 of some topics, or of all, as the bytes of the response."""
        names = -1 if topics is None else len(topics)
        body = struct.pack(">i", names) + b"".join(map(_text, topics or ())) + b"\0"
        self.send(ApiKey.METADATA, 5, body)
        return self.receive()

    def leaders(self, topic: str) -> dict[int, int]:
        """The leader of each partition that has one, by Metadata v1."""
        self.send(ApiKey.METADATA, 1, struct.pack(">i", 1) + _text(topic))
        return leaders_in(self.receive())

    def produce(self, topic: str, partitions: Sequence[int], batch: bytes) -> None:
        """Produce v3, acks=all: the same batch to each of the partitions. Raises: Refused."""
        data = b"".join(struct.pack(">ii", partition, len(batch)) + batch for partition in partitions)
        front = struct.pack(">hhii", -1, -1, 30_000, 1) + _text(topic) + struct.pack(">i", len(partitions))
        self.send(ApiKey.PRODUCE, 3, front + data)
        found = memoryview(self.receive())[4 + len(_text(topic)) + 4 : -4]
        _require({partition: error for partition, error, _, _ in _PRODUCED.iter_unpack(found)})


def leaders_in(answer: bytes) -> dict[int, int]:
    """The leaders in a response to Metadata v1 about one topic. Objects for ten thousand partitions, made twice for
    each of many polls, would take the brokers' CPU time.
    """
    at = 4
    for _ in range(_COUNT.unpack_from(answer)[0]):
        at = _after_text(answer, at + 4) + 4  # id, host, port
        at = _after_text(answer, at)  # rack
    at = _after_text(answer, at + 4 + 4 + 2) + 1  # controller, count of topics, error; name; is it internal?
    (count,), at = _COUNT.unpack_from(answer, at), at + 4
    leaders = {}
    for _ in range(count):
        partition, leader, replicas = _LED.unpack_from(answer, at)
        at += _LED.size + 4 * replicas
        (in_sync,) = _COUNT.unpack_from(answer, at)
        at += 4 + 4 * in_sync
        if leader != _NO_LEADER:
            leaders[partition] = leader
    return leaders


def _after_text(answer: bytes, at: int) -> int:
    size: int = struct.unpack_from(">h", answer, at)[0]
    return at + 2 + max(0, size)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _require(errors: dict[object, int]) -> None:
    refused = {what: error for what, error in errors.items() if error}
    if refused or not errors:
        raise Refused(f"{len(refused)} of {len(errors)} were refused: {dict(list(refused.items())[:5])}")
