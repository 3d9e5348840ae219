"""The limits of server.properties over real sockets, and clients that never read their responses."""

import contextlib
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, write_fetch_request
from kafka_zk.protocol.produce import (
    PartitionData,
    ProduceRequest,
    TopicData,
    read_produce_response,
    write_produce_request,
)
from kafka_zk.protocol.request import request_header
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

pytestmark = [pytest.mark.integration, pytest.mark.embedded]

DEADLINE_S = 10.0


def _connect(broker) -> socket.socket:  # type: ignore[no-untyped-def]
    return socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE_S)


def _frame(api_key: int, version: int, body: bytes) -> bytes:
    frame = request_header(api_key, version, 7, "limits") + body
    return struct.pack(">i", len(frame)) + frame


def _answer(peer: socket.socket) -> bytes:
    """The next response's frame; empty when the broker has closed the connection."""
    try:
        size = peer.recv(4, socket.MSG_WAITALL)
        return peer.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL) if len(size) == 4 else b""
    except ConnectionResetError:
        return b""


def _works(peer: socket.socket) -> bool:
    try:
        peer.sendall(_frame(18, 0, b""))
    except ConnectionError:
        return False
    return bool(_answer(peer))


def _produce(topic: str, value: bytes) -> bytes:
    builder = RecordBatchBuilder()
    builder.append(1_700_000_000_000, None, value)
    data = [TopicData(topic, [PartitionData(0, builder.build())])]
    return _frame(0, 3, b"".join(map(bytes, write_produce_request(3, ProduceRequest(None, 1, 1000, data)))))


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def _socket_count(descriptors: Path) -> int:
    count = 0
    for descriptor in descriptors.iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since the listing
            count += "socket" in str(descriptor.readlink())
    return count


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_limits_hold(make_cluster, make_topic) -> None:  # type: ignore[no-untyped-def]
    cluster = make_cluster(
        1,
        {
            "socket.request.max.bytes": "100000",
            "message.max.bytes": "5000",
            "max.connections.per.ip": "1",
            "max.connections.per.ip.overrides": "127.0.0.1:7",  # the controller's own connection is one
        },
    )
    (broker,) = cluster.brokers
    topic = make_topic(cluster=cluster)
    peer = _connect(broker)
    peer.sendall(_produce(topic, b"x" * 4000) + _produce(topic, b"x" * 6000))
    codes = [read_produce_response(3, memoryview(_answer(peer))[4:]).topics[0].partitions[0].error_code for _ in "12"]
    assert codes == [0, 10]  # MESSAGE_TOO_LARGE; the connection stays open
    peer.sendall(_frame(18, 0, bytes(99_900)))
    assert _answer(peer)
    peer.sendall(struct.pack(">i", 100_001))
    assert not _answer(peer)
    open_now: list[socket.socket] = []

    def one_more() -> bool:
        """Open one more connection, with retries, because a connection that is being closed still counts for a
        moment.
        """
        one = _connect(broker)
        if _works(one):
            open_now.append(one)
        return len(open_now) == 6

    _until(one_more)
    refused = _connect(broker)
    assert not _answer(refused)
    open_now.pop().close()
    _until(lambda: _works(_connect(broker)))
    for one in open_now:
        one.close()


def test_idle_connections_are_closed(make_cluster) -> None:  # type: ignore[no-untyped-def]
    (broker,) = make_cluster(1, {"connections.max.idle.ms": "500"}).brokers
    idle = _connect(broker)
    start = time.monotonic()
    assert not _answer(idle)
    assert 0.4 < time.monotonic() - start < 5


def test_a_full_broker_lets_the_next_one_wait(make_cluster) -> None:  # type: ignore[no-untyped-def]
    (broker,) = make_cluster(1, {"max.connections": "3"}).brokers
    peers = [_connect(broker) for _ in range(8)]
    for peer in peers:
        peer.settimeout(0.5)
        peer.sendall(_frame(18, 0, b""))

    def served() -> int:
        count = 0
        for peer in peers:
            try:
                count += bool(_answer(peer))
            except TimeoutError:
                continue
        return count

    assert 1 <= served() <= 3
    for peer in peers:
        peer.close()


def test_readers_that_take_nothing_cost_no_memory(make_cluster, make_topic) -> None:  # type: ignore[no-untyped-def]
    """Twenty clients send twenty requests for 20 MB each: 8 GB of responses."""
    cluster = make_cluster(1)
    (broker,) = cluster.brokers
    topic = make_topic(cluster=cluster)
    writer = _connect(broker)
    for _ in range(25):
        writer.sendall(_produce(topic, bytes(800_000)))
        assert _answer(writer)
    before = _resident_bytes(broker.pid)
    body = write_fetch_request(4, FetchRequest(0, 1, [FetchTopic(topic, None, [FetchPartition(0, 0, 20_000_000)])]))
    readers = []
    for _ in range(20):
        reader = _connect(broker)
        reader.sendall(_frame(1, 4, body) * 20)
        readers.append(reader)
    for _ in range(50):
        assert _works(writer)
        time.sleep(0.02)
    assert _resident_bytes(broker.pid) - before < 16 << 20
    half = readers.pop()
    half.shutdown(socket.SHUT_WR)
    for reader in readers:  # closes with a reset
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.close()
    descriptors = Path(f"/proc/{broker.pid}/fd")
    _until(lambda: _socket_count(descriptors) < 12)
    assert _works(writer)
