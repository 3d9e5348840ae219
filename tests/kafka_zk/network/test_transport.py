"""The sendfile transport: order, references, and every way in which a connection can end."""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.protocol import Factory, Protocol

from kafka_zk.network import transport
from kafka_zk.network.transport import QUEUE_FULL_BYTES, FramePort
from tests.kafka_zk.network.harness import CountedSlice, LocalReactor, is_closed, receive_all

MakeSlice = Callable[..., CountedSlice]
BIG = 8 * 1024 * 1024  # more than the buffers of both sockets take


class Recorder(Protocol):
    """A protocol that records its events."""

    def __init__(self) -> None:
        self.reason: Any = None
        self.data = b""

    def dataReceived(self, data: bytes) -> None:
        self.data += data

    def connectionLost(self, reason: Any = None) -> None:
        self.reason = reason


class Pair:
    """A server transport and the socket of its peer."""

    def __init__(self, reactor: LocalReactor, receive_buffer_bytes: int | None = None) -> None:
        self.reactor = reactor
        built: list[Recorder] = []
        factory: Any = Factory()
        factory.noisy = False

        def build(addr: object) -> Recorder:
            built.append(Recorder())
            return built[-1]

        factory.buildProtocol = build
        self.port = FramePort(0, factory, 5, "127.0.0.1", reactor)
        self.port.startListening()
        self.port.start_accepting()
        self.peer = socket.socket()
        if receive_buffer_bytes is not None:
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.peer.connect(("127.0.0.1", self.port.getHost().port))  # type: ignore[no-untyped-call]
        self.protocol: Recorder = reactor.until(lambda: built)[0]
        self.transport: Any = self.protocol.transport

    def close(self) -> None:
        self.peer.close()


@pytest.fixture
def pair(reactor: LocalReactor) -> Iterator[Pair]:
    pair = Pair(reactor, 128 * 1024)
    yield pair
    pair.close()


def _expected(*parts: bytes) -> bytes:
    return struct.pack(">i", sum(map(len, parts))) + b"".join(parts)


def test_parts_arrive_in_order_behind_their_size(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    first, second = make_slice(1000, 3), make_slice(5)
    pair.transport.write_frame([b"head", first, bytearray(b"between"), second, memoryview(b"tail")])
    expected = _expected(b"head", first.read(), b"between", second.read(), b"tail")
    assert receive_all(reactor, pair.peer, len(expected)) == expected


def test_an_answer_that_fits_leaves_without_a_turn_of_the_reactor(pair: Pair, make_slice: MakeSlice) -> None:
    pair.transport.write_frame([b"head", make_slice(100)])
    pair.peer.settimeout(5)
    assert len(pair.peer.recv(1000)) == 4 + 4 + 100
    assert pair.transport.queued_size_bytes == 0


def test_what_is_held_leaves_together(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    """Nothing is sent before send_held; then everything is, slices and empty parts included, in order."""
    part = make_slice(1000)
    pair.transport.hold()
    frames = [[b"one"], [b"", b"two"], [b"head", part, b""], [b"four"]]
    for frame in frames:
        pair.transport.write_frame(frame)
    pair.peer.setblocking(False)
    with pytest.raises(BlockingIOError):
        pair.peer.recv(1)
    queued_size_bytes = pair.transport.queued_size_bytes
    pair.transport.send_held()
    expected = _expected(b"one") + _expected(b"two") + _expected(b"head", part.read()) + _expected(b"four")
    assert receive_all(reactor, pair.peer, len(expected)) == expected
    assert queued_size_bytes == len(expected)
    assert (pair.transport.queued_size_bytes, part.references) == (0, 0)


def test_a_thousand_small_frames_held_behind_a_full_socket_keep_their_order(
    reactor: LocalReactor, pair: Pair, make_slice: MakeSlice
) -> None:
    """The frames exceed what one call sends, and some calls send only a part."""
    big = make_slice(BIG)
    pair.transport.hold()
    pair.transport.write_frame([big])
    frames = [b"%d" % number * 50 for number in range(1000)]
    for frame in frames:
        pair.transport.write_frame([frame])
    pair.transport.send_held()
    expected = _expected(big.read()) + b"".join(_expected(frame) for frame in frames)
    assert receive_all(reactor, pair.peer, len(expected)) == expected


def test_a_big_slice_arrives_whole(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    big = make_slice(BIG)
    pair.transport.write_frame([big, b"end"])
    assert pair.transport.queued_size_bytes > 0
    expected = _expected(big.read(), b"end")
    assert receive_all(reactor, pair.peer, len(expected)) == expected


def test_frames_written_behind_a_big_one_follow_it(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    big = make_slice(BIG)
    pair.transport.write_frame([big])
    pair.transport.write_frame([b"second"])
    pair.transport.write(b"raw")
    expected = _expected(big.read()) + _expected(b"second") + b"raw"
    assert receive_all(reactor, pair.peer, len(expected)) == expected


def test_lose_connection_sends_the_queue_first(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    big = make_slice(BIG)
    pair.transport.write_frame([b"head", big])
    pair.transport.loseConnection()
    expected = _expected(b"head", big.read())
    assert receive_all(reactor, pair.peer, len(expected)) == expected
    reactor.until(lambda: is_closed(pair.peer))
    reactor.until(lambda: pair.protocol.reason)
    assert pair.protocol.reason.check(ConnectionDone)


def test_lose_connection_with_an_empty_queue_closes(reactor: LocalReactor, pair: Pair) -> None:
    pair.transport.loseConnection()
    reactor.until(lambda: is_closed(pair.peer))


def test_abort_with_a_queue_gives_the_slices_back(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    big = make_slice(BIG)
    pair.transport.write_frame([big])
    assert big.references == 1
    pair.transport.abortConnection()
    pair.transport.write_frame([make_slice(10)])
    reactor.until(lambda: pair.protocol.reason)
    assert pair.protocol.reason.check(ConnectionAborted)
    assert big.references == 0


def test_reset_by_the_peer_gives_the_slices_back(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    big = make_slice(BIG)
    pair.transport.write_frame([big])
    pair.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair.peer.close()
    reactor.until(lambda: pair.protocol.reason)
    assert big.references == 0


def test_half_close_by_the_peer_ends_the_connection(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    """Kafka, too, closes a connection whose peer has closed its side, even with unsent data."""
    big = make_slice(BIG)
    pair.transport.write_frame([big])
    pair.peer.shutdown(socket.SHUT_WR)
    reactor.until(lambda: pair.protocol.reason)
    assert big.references == 0


def test_a_truncated_file_ends_the_connection(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    """sendfile then sends nothing, because the promised bytes do not exist."""
    big = make_slice(BIG)
    pair.transport.write_frame([big, b"never"])
    os.truncate(big.path, 100)
    receive_all(reactor, pair.peer, BIG)
    reactor.until(lambda: pair.protocol.reason)
    assert pair.protocol.reason.check(ConnectionLost)
    assert big.references == 0


def test_an_unreadable_file_ends_the_connection(
    reactor: LocalReactor, pair: Pair, make_slice: MakeSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_disk(*_arguments: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(transport, "send_file", broken_disk)
    lost = make_slice(5_000)
    pair.transport.write_frame([b"head", lost])
    reactor.until(lambda: pair.protocol.reason)
    assert lost.references == 0


def test_a_small_slice_whose_file_is_shorter_ends_the_connection(
    reactor: LocalReactor, pair: Pair, make_slice: MakeSlice
) -> None:
    first, lost = make_slice(10), make_slice(10)
    os.truncate(lost.path, lost.position + 9)
    pair.transport.write_frame([b"head", first, lost])
    reactor.until(lambda: pair.protocol.reason)
    assert pair.protocol.reason.check(ConnectionAborted)
    assert (first.references, lost.references) == (0, 0)
    pair.peer.settimeout(5)
    with pytest.raises(ConnectionResetError):
        pair.peer.recv(1)


def test_few_records_leave_in_one_call(
    reactor: LocalReactor, pair: Pair, make_slice: MakeSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the peer reads nothing, queued records stay in the file instead."""
    monkeypatch.setattr(transport, "send_file", None)
    few = make_slice(3_000)
    pair.transport.write_frame([b"head", few, b"tail"])
    assert receive_all(reactor, pair.peer, 4 + 3_008) == _expected(b"head", few.read(), b"tail")
    monkeypatch.undo()
    big, small = make_slice(BIG), make_slice(3_000)
    pair.transport.write_frame([big])
    pair.transport.write_frame([small])
    assert small.references == 1 and pair.transport.queued_memory_bytes < 100
    expected = _expected(big.read()) + _expected(small.read())
    assert receive_all(reactor, pair.peer, len(expected)) == expected


def test_a_deleted_file_is_sent_to_its_end(reactor: LocalReactor, pair: Pair, make_slice: MakeSlice) -> None:
    """Deletion removes the name, but the slice keeps the file open."""
    big = make_slice(BIG)
    data = big.read()
    pair.transport.write_frame([big])
    big.path.unlink()
    assert receive_all(reactor, pair.peer, BIG + 4) == _expected(data)


def test_a_file_that_grows_and_rolls_does_not_change_its_slice(
    reactor: LocalReactor, pair: Pair, make_slice: MakeSlice
) -> None:
    big = make_slice(BIG)
    data = big.read()
    pair.transport.write_frame([big, b"end"])
    with big.path.open("ab") as file:
        file.write(b"more" * 1000)
    assert receive_all(reactor, pair.peer, BIG + 7) == _expected(data, b"end")


def test_nothing_is_retained_after_the_connection_is_lost(
    reactor: LocalReactor, pair: Pair, make_slice: MakeSlice
) -> None:
    pair.peer.close()
    reactor.until(lambda: pair.protocol.reason)
    late = make_slice(10)
    pair.transport.write_frame([b"head", late])
    assert late.retained == 0


def test_on_drained_is_called_when_half_of_a_full_queue_has_left(
    reactor: LocalReactor, pair: Pair, make_slice: MakeSlice
) -> None:
    big = make_slice(BIG)
    sizes: list[int] = []
    pair.transport.on_drained = lambda: sizes.append(pair.transport.queued_size_bytes)
    pair.transport.write_frame([big])
    assert pair.transport.queued_size_bytes > QUEUE_FULL_BYTES
    receive_all(reactor, pair.peer, BIG + 4)
    reactor.until(lambda: pair.transport.queued_size_bytes == 0)
    assert sizes and max(sizes) <= QUEUE_FULL_BYTES // 2


def test_a_streaming_producer_is_paused_and_resumed(reactor: LocalReactor, pair: Pair) -> None:
    """Twisted's contract for ``write``."""
    calls: list[str] = []

    class Producer:
        def pauseProducing(self) -> None:
            calls.append("pause")

        def resumeProducing(self) -> None:
            calls.append("resume")

        def stopProducing(self) -> None:
            calls.append("stop")

    pair.transport.registerProducer(Producer(), True)
    pair.transport.write(bytes(BIG))
    assert calls == ["pause"]
    receive_all(reactor, pair.peer, BIG)
    reactor.until(lambda: calls[-1] == "resume")
    pair.peer.close()
    reactor.until(lambda: calls[-1] == "stop")


def test_lose_write_connection_closes_the_writing_half_only(reactor: LocalReactor, pair: Pair) -> None:
    pair.transport.write_frame([b"last"])
    pair.transport.loseWriteConnection()
    assert receive_all(reactor, pair.peer, 9) == _expected(b"last")
    pair.peer.setblocking(True)
    pair.peer.sendall(b"still heard")
    reactor.until(lambda: pair.protocol.data)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(st.one_of(st.binary(max_size=9000), st.integers(1, 400_000)), max_size=4), max_size=5))
def test_any_mix_of_bytes_and_slices_arrives_in_order(frames: list[list[bytes | int]]) -> None:
    reactor = LocalReactor()
    pair = Pair(reactor, 128 * 1024)
    content = bytes(range(251)) * 1700
    descriptor = os.memfd_create("slices")
    os.write(descriptor, content)

    class MemorySlice:
        references = 0

        def __init__(self, size_bytes: int) -> None:
            self.position = size_bytes % 1000
            self.size_bytes = size_bytes

        def fileno(self) -> int:
            return descriptor

        def read(self) -> bytes:
            return os.pread(descriptor, self.size_bytes, self.position)

        def retain(self) -> None:
            MemorySlice.references += 1

        def release(self) -> None:
            MemorySlice.references -= 1

    expected = b""
    for frame in frames:
        parts = [MemorySlice(part) if isinstance(part, int) else part for part in frame]
        expected += _expected(
            *(
                part if isinstance(part, bytes) else content[part.position : part.position + part.size_bytes]
                for part in parts
            )
        )
        pair.transport.write_frame(parts)
    if expected:
        assert receive_all(reactor, pair.peer, len(expected)) == expected
    assert MemorySlice.references == 0
    os.close(descriptor)
    pair.close()
    reactor.close()
