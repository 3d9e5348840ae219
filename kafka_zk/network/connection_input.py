"""A connection's frames, and their memory in the broker's budget.

Tests: tests/kafka_zk/network/{test_accounts,test_starvation,test_pipelines}.py.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.connection_states import ASK, GRANT, PAUSE, UNPAUSE, Input
from kafka_zk.network.memory_pool import FREE_BYTES
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.frame import FrameDecoder

BETWEEN_BROKERS = frozenset(
    (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
)
"""Requests between brokers that must succeed even if clients have used up the memory."""

_READING = frozenset((Input.READING, Input.READING_ASKING))
_ASKING = frozenset((Input.ASKING, Input.READING_ASKING))


class PushProducer(Protocol):
    def pauseProducing(self) -> None: ...
    def resumeProducing(self) -> None: ...


class ConnectionInput:
    """The input of one connection.

    Attributes:
        state: whether the transport may receive; read-only for others.
        decoder: holds the incomplete frame.
        frames: complete ones, oldest first.
        memory: the connection's account.
    """

    __slots__ = (
        "_asked_bytes", "_between_brokers", "_frames_bytes", "_is_known", "_seen_bytes", "_seen_frame", "_transport",
        "decoder", "frames", "memory", "state",
    )  # fmt: skip

    def __init__(self, settings: ConnectionSettings) -> None:
        self.state = Input.READING
        self._between_brokers = settings.between_brokers
        self._is_known = not settings.has_handshake
        self.memory = settings.memory.account(of_broker=self._is_known and settings.between_brokers)
        self.decoder = FrameDecoder(settings.max_request_size_bytes, self.memory)
        self.frames: deque[memoryview] = deque()
        self._frames_bytes = 0  # size of ``frames``, except for bytes that the decoder still counts
        self._transport: PushProducer
        self._asked_bytes = 0
        # At the last ``is_slow``:
        self._seen_frame = 0  # number of the incomplete frame
        self._seen_bytes = 0  # bytes received of that frame

    def connect(self, transport: PushProducer) -> None:
        """``transport`` pauses and resumes reading."""
        self._transport = transport

    @property
    def is_reading(self) -> bool:
        return self.state in _READING

    def filled(self, count: int) -> bool:
        """Add ``count`` received bytes to the incomplete frame. Returns True if it is complete. Raises
        ProtocolError."""
        frame = self.decoder.filled(count)
        if frame is None:
            return False
        self.frames.append(frame)
        return True

    def count(self, size_bytes: int, *, is_idle: bool) -> None:
        """Charge the buffer of one read, which exists until its last frame is handled. ``is_idle``: no request is in
        progress."""
        if size_bytes <= FREE_BYTES:
            return
        if self.frames:
            self.memory.take(size_bytes)
            self._frames_bytes += size_bytes
        elif not is_idle:
            self.memory.take_frame(size_bytes)

    def pause(self) -> None:
        """Stop reading until ``resume``."""
        if self.state in _READING:
            self.state = PAUSE[self.state]
            self._transport.pauseProducing()

    def resume(self) -> None:
        if self.state not in _READING:
            self.state = UNPAUSE[self.state]
            self._transport.resumeProducing()

    def ask(self, granted: Callable[[], None]) -> None:
        """While reading is paused, ask once for memory for the incomplete frame's next step. ``granted`` may be called
        before this returns."""
        if self.state in _ASKING:
            return
        self.state = ASK[self.state]
        decoder = self.decoder
        self._asked_bytes = decoder.needed_bytes
        self.uses_reserve(int.from_bytes(decoder.beginning(2), "big"))
        self.memory.when_taken(self._asked_bytes, granted, decoder.size_bytes)

    def granted(self) -> None:
        """Raises ProtocolError like ``FrameDecoder.grow``."""
        self.state = GRANT[self.state]
        if self._asked_bytes == self.decoder.needed_bytes:
            self.decoder.grow()
        else:  # the transport has already received the bytes of this step
            self.memory.give_back(self._asked_bytes)

    def uses_reserve(self, api_key: int) -> None:
        """Set whether the request may use the reserve; an unauthenticated peer never may."""
        self.memory.of_broker = self._is_known and (self._between_brokers or api_key in BETWEEN_BROKERS)

    def authenticated(self) -> None:
        self._is_known = True
        self.memory.of_broker = self._between_brokers

    def settle(self, in_flight_bytes: int, queued_bytes: int) -> None:
        """Return the last request's memory, except frames, requests in flight and queued responses."""
        memory, decoder = self.memory, self.decoder
        self._frames_bytes += decoder.hand_over()
        left_bytes = decoder.counted_bytes + self._frames_bytes + in_flight_bytes
        if queued_bytes:
            left_bytes += min(memory.size_bytes - left_bytes, queued_bytes)
        if memory.size_bytes != left_bytes:
            memory.settle(left_bytes)

    def hand_over_frames(self) -> None:
        """Move the memory of the last frame to its request, which is now being handled."""
        self.memory.frame_bytes = self._frames_bytes + self.decoder.hand_over()
        self._frames_bytes = 0

    def is_slow(self, least_bytes: int) -> bool:
        """True if no frame began since the last call, and fewer than ``least_bytes`` of the incomplete one arrived."""
        decoder = self.decoder
        frame, received_bytes = self._seen_frame, self._seen_bytes
        self._seen_frame, self._seen_bytes = decoder.begun_count, decoder.buffered_size_bytes
        return self._seen_frame == frame and self._seen_bytes - received_bytes < least_bytes

    def forget(self) -> None:
        """Drop all frames; the account keeps their memory."""
        self.frames.clear()
        self._frames_bytes = 0
        self.decoder.hand_over()
        self.decoder.close()
