"""Frames: however a stream is cut, the same frames come out, in linear time."""

import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_zk.protocol.errors import OtherProtocol, ProtocolError
from kafka_zk.protocol.frame import FrameDecoder


def _stream(frames: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)


@given(st.lists(st.binary(max_size=40), max_size=6), st.data())
def test_the_same_frames_however_the_stream_is_cut(frames: list[bytes], data: st.DataObject) -> None:
    stream = _stream(frames)
    decoder = FrameDecoder(100)
    seen: list[bytes] = []
    while stream:
        missing = decoder.missing
        if missing is not None and data.draw(st.booleans()):
            count = data.draw(st.integers(1, min(len(missing), len(stream))))
            missing[:count] = stream[:count]
            frame = decoder.filled(count)
            seen += [] if frame is None else [bytes(frame)]
        else:
            count = data.draw(st.integers(1, len(stream)))
            seen += map(bytes, decoder.feed(stream[:count]))
        stream = stream[count:]
    assert seen == frames
    assert decoder.buffered_size_bytes == 0


def test_frames_are_writable() -> None:
    (frame,) = FrameDecoder(10).feed(_stream([b"abc"]))
    frame[0] = 0
    assert bytes(frame) == b"\x00bc"


@pytest.mark.parametrize("size", [-1, -(2**31), 11, 2**31 - 1])
def test_a_size_out_of_bounds_is_a_protocol_error_after_the_frames_before_it(size: int) -> None:
    seen = []
    with pytest.raises(ProtocolError):
        for frame in FrameDecoder(10).feed(_stream([b"good"]) + struct.pack(">i", size)):
            seen.append(bytes(frame))
    assert seen == [b"good"]


def test_64_mib_take_linear_time() -> None:
    """Chunks of 64 KiB, as a socket gives them; Int32StringReceiver takes 18 s for this."""
    size_bytes = 64 * 1024 * 1024
    chunk = bytes(65536)
    decoder = FrameDecoder(size_bytes)
    start = time.process_time()
    list(decoder.feed(struct.pack(">i", size_bytes)))
    frames = [frame for _ in range(size_bytes // len(chunk)) for frame in decoder.feed(chunk)]
    assert len(frames) == 1
    assert time.process_time() - start < 1


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_an_announced_size_costs_neither_memory_nor_time() -> None:
    """Ten unauthenticated clients announce 100 MiB each."""
    before = _resident_bytes()
    start = time.process_time()
    decoders = [FrameDecoder(100 << 20) for _ in range(10)]
    for decoder in decoders:
        assert not list(decoder.feed(struct.pack(">i", 100 << 20) + b"hello"))
    assert time.process_time() - start < 0.05
    assert _resident_bytes() - before < 64 << 20


def test_a_big_frame_is_writable_and_outlives_its_decoder() -> None:
    size_bytes = 3 * 1024 * 1024
    decoder = FrameDecoder(size_bytes)
    assert not list(decoder.feed(struct.pack(">i", size_bytes) + bytes(1000)))
    (frame,) = decoder.feed(b"x" * (size_bytes - 1000) + b"\x00\x00")
    del decoder
    frame[0] = 1
    assert bytes(frame) == b"\x01" + bytes(999) + b"x" * (size_bytes - 1000)


class _Scarce:
    """A budget that has room at random; counts the bytes taken."""

    def __init__(self, draw: st.DataObject) -> None:
        self._draw = draw
        self.taken_bytes = 0

    def take(self, size_bytes: int) -> None:
        self.taken_bytes += size_bytes

    def try_take(self, size_bytes: int, whole_bytes: int = 0) -> bool:
        has_room = self._draw.draw(st.booleans())
        self.taken_bytes += size_bytes * has_room
        return has_room

    def give_back(self, size_bytes: int) -> None:
        self.taken_bytes -= size_bytes

    def release(self) -> None:
        raise AssertionError("a decoder answers no request")

    async def reserve(self, size_bytes: int) -> None:
        raise AssertionError("a decoder does not wait")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from([0, 5, 4096, 4097, 100_000, 1_100_000]), max_size=4), st.data())
def test_a_frame_grows_step_by_step_as_the_budget_allows(sizes: list[int], data: st.DataObject) -> None:
    """Data that arrive in spite of ``needed_bytes`` are kept; the count is never less than the data received."""
    frames = [(bytes(range(256)) * (size // 256 + 1))[:size] for size in sizes]
    stream = memoryview(_stream(frames))
    memory = _Scarce(data)
    decoder = FrameDecoder(10_000_000, memory)
    seen: list[bytes] = []

    def got(frame: memoryview) -> None:
        seen.append(bytes(frame))
        memory.taken_bytes = 0

    while stream:
        if decoder.needed_bytes and data.draw(st.booleans()):
            memory.taken_bytes += decoder.needed_bytes
            decoder.grow()
        missing = decoder.missing
        if missing and data.draw(st.booleans()):
            count = min(len(missing), len(stream), 1 << 20)
            missing[:count] = stream[:count]
            frame = decoder.filled(count)
            if frame is not None:
                got(frame)
        else:
            count = min(len(stream), data.draw(st.sampled_from([1, 100, 5000, 128 * 1024])))
            for frame in decoder.feed(stream[:count]):
                got(frame)
        stream = stream[count:]
        assert decoder.counted_bytes == memory.taken_bytes
        if decoder.size_bytes > 4096:
            assert decoder.counted_bytes >= decoder.buffered_size_bytes
    assert seen == frames


@pytest.mark.parametrize(
    ("hello", "told"),
    [
        (bytes.fromhex("1603010200010001fc0303"), "looks like TLS"),
        (bytes.fromhex("16030300c8010000c40303"), "looks like TLS"),
        (b"GET /metrics HTTP/1.1\r\n", "looks like HTTP"),
        (b"POST / HTTP/1.1\r\n", "looks like HTTP"),
        (b"PRI * HTTP/2.0\r\n", "looks like HTTP"),
    ],
)
def test_a_hello_of_another_protocol_is_named(hello: bytes, told: str) -> None:
    for size in (1, 3, len(hello)):
        decoder = FrameDecoder(104857600)
        with pytest.raises(OtherProtocol, match=told):
            for start in range(0, len(hello), size):
                list(decoder.feed(hello[start : start + size]))


def test_another_size_that_is_too_large_is_no_other_protocol() -> None:
    with pytest.raises(ProtocolError, match="a frame of 2147483647 bytes") as refused:
        list(FrameDecoder(104857600).feed(b"\x7f\xff\xff\xff"))
    assert not isinstance(refused.value, OtherProtocol)
