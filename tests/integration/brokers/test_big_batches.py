"""Batches of some kilobytes that unpack to millions of records, sent to a real broker that other clients use."""

import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import request_header, response_body_position
from kafka_zk.storage.records.compression import Compression
from tests.kafka_zk.broker.handlers.data.big_batches import NOW_MS, tiny_records
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, produce
from tests.kafka_zk.broker.handlers.test_other_apis import list_offsets

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

DEADLINE_S = 120.0
QUIET_S = 3.0
LONGER_S = 2.0  # for a busy machine; one lookup alone took 15 s of the reactor
MOST_BYTES = 300_000_000
MANY = 300_000


class Client:
    """One connection that sends one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self._answers = self._socket.makefile("rb")

    def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        frame = request_header(api_key, version, 7, "batches") + codec.encode_body(request, api_key, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size_bytes,) = struct.unpack(">i", self._answers.read(4))
        answer = memoryview(self._answers.read(size_bytes))
        return codec.decode_response(api_key, version, answer[response_body_position(answer, api_key, version) :])


class Other(threading.Thread):
    """Another client, which sends a small request repeatedly."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(port)
        self.longest_s = 0.0
        self.ends = False

    def run(self) -> None:
        request = codec.request(ApiKey.METADATA)(topics=[], allow_auto_topic_creation=False)
        while not self.ends:
            begun_s = time.monotonic()
            self._client.ask(ApiKey.METADATA, 4, request)
            self.longest_s = max(self.longest_s, time.monotonic() - begun_s)


def resident_bytes(pid: int) -> int:
    """The peak resident memory of a process and its children."""
    total = 0
    children = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    for each in {pid, *(int(child) for found in children for child in found)}:
        status = Path(f"/proc/{each}/status").read_text()
        total += int(status.partition("VmHWM:")[2].split()[0]) * 1024
    return total


@pytest.mark.long
def test_a_batch_that_is_huge_to_take_apart_keeps_nobody_else(make_cluster, make_topic) -> None:  # type: ignore[no-untyped-def]
    """Huge batches are produced, looked up and converted, while another client gets its responses and the broker and
    its helper processes stay small.
    """
    cluster = make_cluster(1, {"max.message.bytes": "10000000", "message.max.bytes": "10000000"})
    (broker,) = cluster.brokers
    own = make_topic(config={"compression.type": "gzip"}, cluster=cluster)
    plain = make_topic(cluster=cluster)
    huge = tiny_records(14_000_000)
    big, old = (tiny_records(MANY, each, max_timestamp_ms=NOW_MS + 1) for each in (Compression.zstd, Compression.gzip))
    client, other = Client(broker.port), Other(broker.port)
    other.start()
    time.sleep(QUIET_S)
    quiet_s, other.longest_s = other.longest_s, 0.0

    def produced(records: bytes, topic: str) -> int:
        answer = client.ask(ApiKey.PRODUCE, 9, produce(records, topic=topic))
        return int(answer.responses[0].partition_responses[0].error_code)

    assert [produced(huge, own), produced(huge, plain)] == [ErrorCode.INVALID_RECORD] * 2
    assert [produced(big, own), produced(old, own), produced(old, plain)] == [0] * 3
    for timestamp in (NOW_MS, NOW_MS + 1, -3):
        for topic in (own, plain):
            request = list_offsets(timestamp)
            request.topics[0].name = topic
            assert client.ask(ApiKey.LIST_OFFSETS, 7, request).topics[0].partitions[0].error_code == 0
    for topic in (plain, own):
        answer = client.ask(ApiKey.FETCH, 2, fetch(0, topic=topic))
        assert answer.responses[0].partitions[0].error_code == 0
    attacked_s, other.ends = other.longest_s, True
    other.join(DEADLINE_S)
    assert resident_bytes(broker.pid) < MOST_BYTES
    assert attacked_s < quiet_s + LONGER_S, f"{attacked_s} s, without the batches {quiet_s} s"
