"""Small requests with a high cost: ``python -m tests.fuzz.request_attacks NAME``, each on a broker of its own.

Prints memory before and at the peak, in MB, the longest turn of the reactor, in ms of processor time, how the requests
ended and the broker's log.
"""

import contextlib
import json
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.primitives import unsigned_varint
from kafka_zk.protocol.produce import PartitionData, ProduceRequest, TopicData, write_produce_request
from kafka_zk.protocol.request import request_header
from tests.fuzz.target import STRANGERS, Outcome, Target
from tests.kafka_zk.network.memory_attacks import memory_mb

MB = 1024 * 1024


def framed(api_key: ApiKey, version: int, body: bytes | bytearray) -> bytes:
    frame = request_header(api_key, version, 7, "attacker") + body
    return struct.pack(">i", len(frame)) + frame


def names(count: int) -> bytes:
    """Metadata version 1 for ``count`` topics without a name."""
    return framed(ApiKey.METADATA, 1, struct.pack(">i", count) + bytes(2 * count))


def different_names(count: int) -> bytes:
    """Metadata version 4, which creates no topics, for unknown topics."""
    body = struct.pack(">i", count) + b"".join(struct.pack(">h", 7) + b"%07d" % number for number in range(count))
    return framed(ApiKey.METADATA, 4, body + b"\0")


def one_name(count: int) -> bytes:
    """Metadata version 4 that repeats the same topic."""
    return framed(ApiKey.METADATA, 4, struct.pack(">i", count) + b"\0\1t" * count + b"\0")


def header_tags(size_bytes: int) -> bytes:
    """Fill the header of ApiVersions version 3 with empty tagged fields."""
    count = size_bytes // 2
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 7, -1) + unsigned_varint(count) + b"\x05\x00" * count
    frame = header + b"\x02a\x02b\x00"
    return struct.pack(">i", len(frame)) + frame


def one_header_tag(size_bytes: int) -> bytes:
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, 3, 7, -1) + b"\x01\x05" + unsigned_varint(size_bytes)
    frame = header + bytes(size_bytes) + b"\x02a\x02b\x00"
    return struct.pack(">i", len(frame)) + frame


def long_string(size_bytes: int) -> bytes:
    """The name of the client's software, in bytes that are not UTF-8."""
    return framed(ApiKey.API_VERSIONS, 3, unsigned_varint(size_bytes + 1) + b"\xff" * size_bytes + b"\x02b\x00")


def topics_to_create(count: int, partitions: int) -> bytes:
    request = codec.request(ApiKey.CREATE_TOPICS)
    topics = [
        request.CreatableTopic(
            name=f"new-{number}", num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        for number in range(count)
    ]
    message = request(topics=topics, timeout_ms=1000, validate_only=True)
    return framed(ApiKey.CREATE_TOPICS, 7, codec.encode_body(message, ApiKey.CREATE_TOPICS, 7))


def session(count: int) -> bytes:
    """A fetch session of unknown partitions."""
    topics = [FetchTopic("nowhere", None, [FetchPartition(number, 1000 + number, MB) for number in range(count)])]
    return framed(ApiKey.FETCH, 12, write_fetch_request(12, FetchRequest(0, 1, topics, session_epoch=0)))


def batches(count: int) -> bytes:
    """Produce to the same number of unknown partitions."""
    data = [TopicData("nowhere", [PartitionData(number, b"") for number in range(count)])]
    parts = write_produce_request(9, ProduceRequest(None, 1, 1000, data))
    return framed(ApiKey.PRODUCE, 9, b"".join(bytes(part) for part in parts))


def epochs(count: int) -> bytes:
    request = codec.request(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    topic = request.OffsetForLeaderTopic
    partitions = [
        topic.OffsetForLeaderPartition(partition=number, current_leader_epoch=-1, leader_epoch=0)
        for number in range(count)
    ]
    message = request(replica_id=-1, topics=[topic(topic="nowhere", partitions=partitions)])
    return framed(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, codec.encode_body(message, ApiKey.OFFSET_FOR_LEADER_EPOCH, 3))


def ask(target: Target, data: bytes) -> Outcome:
    """Send ``data`` and wait for the whole response or the end of the connection."""
    before = set(target.connections())
    peer = socket.create_connection(("127.0.0.1", target.port(STRANGERS)))
    target.reactor.until(lambda: set(target.connections()) - before)
    connection = (set(target.connections()) - before).pop()
    peer.setblocking(False)
    rest, received, longest_s, end = memoryview(data), b"", 0.0, ""
    while not end:
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            rest = rest[peer.send(rest) :] if rest else rest
        start_s = time.thread_time()
        target.reactor.turn(0)
        longest_s = max(longest_s, time.thread_time() - start_s)
        try:
            chunk = peer.recv(MB)
            received += chunk
            end = "" if chunk else "closed"
        except BlockingIOError:
            pass
        except ConnectionResetError:
            end = "closed"
        if len(received) >= 4 and len(received) >= 4 + struct.unpack(">i", received[:4])[0]:
            end = f"answered with {len(received)} bytes"
    peer.close()
    target.reactor.until(lambda: connection not in target.connections())
    return Outcome(end, longest_s * 1000, *target.log.take())


def hang_up(target: Target) -> Outcome:
    """A client sends an expensive request and disconnects, which ends the work for it."""
    data = different_names(99_999)
    before = set(target.connections())
    peer = socket.create_connection(("127.0.0.1", target.port(STRANGERS)))
    target.reactor.until(lambda: set(target.connections()) - before)
    connection = (set(target.connections()) - before).pop()
    peer.setblocking(False)
    sent = 0
    while not connection.is_busy:
        if sent < len(data):
            sent += peer.send(memoryview(data)[sent:])
        target.reactor.turn(0)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    target.reactor.until(lambda: connection not in target.connections())
    turns = 0
    while connection._memory.size_bytes:
        target.reactor.turn(0)
        turns += 1
        assert turns < 10, "the work continues"
    assert target.broker.parts.memory.used_bytes == 0
    return Outcome("stopped", 0.0, *target.log.take())


ATTACKS: dict[str, Callable[[Target], list[Outcome]]] = {
    "names": lambda target: [ask(target, names(25_000_000)), ask(target, names(500_000))],
    "many_names": lambda target: [ask(target, names(90_000)), ask(target, different_names(20_000))],
    "one_name": lambda target: [ask(target, one_name(90_000))],
    "header_tags": lambda target: [ask(target, header_tags(20 * MB)), ask(target, one_header_tag(20 * MB))],
    "long_string": lambda target: [ask(target, long_string(50 * MB))],
    "create_topics": lambda target: [ask(target, topics_to_create(100, 50_000))],
    "sessions": lambda target: [ask(target, session(count)) for count in [100_000] * 2 + [25_000] * 18],
    "batches": lambda target: [ask(target, batches(1_000_000)), ask(target, batches(19_000))],
    "epochs": lambda target: [ask(target, epochs(500_000)), ask(target, epochs(45_000))],
    "hang_up": lambda target: [hang_up(target)],
}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kafka-zk-attack-") as folder:
        target = Target(Path(folder), ("t",))
        attack = ATTACKS[sys.argv[1]]
        before = memory_mb("VmRSS")
        start_s = time.monotonic()
        outcomes = attack(target)
        result = {
            "before": before,
            "peak": memory_mb("VmHWM"),
            "ends": [outcome.end for outcome in outcomes],
            "longest_turn_ms": max(outcome.turn_ms for outcome in outcomes),
            "seconds": time.monotonic() - start_s,
            "log": [line for outcome in outcomes for line in outcome.lines],
            "failures": [line for outcome in outcomes for line in outcome.failures],
            "kept_bytes": target.broker.parts.memory.kept_bytes,
        }
        print(json.dumps(result))
        target.close()


if __name__ == "__main__":
    main()
