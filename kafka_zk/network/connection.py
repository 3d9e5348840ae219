"""The server side of a connection: frames in, requests one at a time, answers out.

A connection handles one request at a time and stops reading meanwhile. It also stops while the outgoing queue is full,
and while the broker has no memory for the frame (``memory_pool``). A request is a coroutine, stepped by hand: if its
handler never waits, the response leaves before ``dataReceived`` returns and no Deferred is made.

Produce requests are pipelined: one that only waits for other brokers lets the next Produce begin (``in_flight``).
Responses leave in the order of the requests.

A connection is in its handshake until that hands over a context; after it every request goes to ``dispatch``. What the
peer gets wrong ends this connection, with one line in the log. Tests: tests/kafka_zk/network/test_connection.py.
"""

from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import ClientWait
from kafka_zk.network.copying_writer import CopyingFrameWriter
from kafka_zk.network.foreign_peers import ForeignPeers
from kafka_zk.network.in_flight import InFlight, InFlightRequest, Outcome, Response
from kafka_zk.network.memory_pool import FREE_BYTES, UNBOUNDED, MemoryPool
from kafka_zk.network.read_ahead import ReadAhead
from kafka_zk.network.transport import QUEUE_FULL_BYTES
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.api_versions import unsupported_version_response
from kafka_zk.protocol.errors import OtherProtocol, ProtocolError
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.frame import FrameDecoder
from kafka_zk.protocol.request import RequestContext, RequestHeader, parse_request_header

Dispatch = Callable[[RequestContext, RequestHeader, memoryview], Coroutine[Any, Any, Response]]
"""Answers a request; the memoryview is its body."""

ResponseHook = Callable[[RequestContext, RequestHeader, Response], int]
"""Sees every answer before it is sent and may change the list (throttle time); returns how many ms to mute the peer."""

REQUESTS_PER_TURN = 64
"""Maximum number of small requests from one read that are handled before other connections get a turn."""

BETWEEN_BROKERS = frozenset(
    (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
)
"""Requests that brokers need to get through when clients have used up the memory."""
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_PRODUCE = int(ApiKey.PRODUCE).to_bytes(2, "big")  # as a frame begins
_log = Logger()  # not a class's: its events would hold on to the connection


class Handshake(Protocol):
    """What happens on a connection before its requests count, for example SASL. One object per connection."""

    def request(
        self, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, tuple[Response, RequestContext | None]]:
        """Answer one request; a context beside the answer ends the handshake. Raises ProtocolError to refuse."""


@dataclass(slots=True)
class ConnectionSettings:
    """What all connections of a listener share.

    Args:
        clock: the reactor, as IReactorTime.
        dispatch: answers a request, errors included. An exception is logged with its traceback and ends the connection.
        versions: API key to lowest and highest version offered. Any other version ends the connection, except one of
            ApiVersions.
        max_request_size_bytes: socket.request.max.bytes.
        handshake: makes the handshake of a new connection; None for none.
        on_response: see ``ResponseHook``.
        read_ahead: see ``ReadAhead``; None sends slices as they are.
        memory: what all requests of the broker may hold.
        between_brokers: whether only brokers connect to this listener: they may use the reserve.
    """

    clock: Timers
    listener_name: str
    dispatch: Dispatch
    security_protocol: str = "PLAINTEXT"
    versions: Mapping[ApiKey, tuple[int, int]] = field(default_factory=lambda: BROKER_VERSIONS)
    max_request_size_bytes: int = 104857600
    principal: str = "User:ANONYMOUS"
    handshake: Callable[[], Handshake] | None = None
    on_response: ResponseHook | None = None
    read_ahead: ReadAhead | None = None
    memory: MemoryPool = UNBOUNDED
    between_brokers: bool = False
    foreign_peers: ForeignPeers = field(default_factory=ForeignPeers)


class BrokerConnection(TwistedProtocol):
    """One client's connection. ``on_lost`` is called once, with the connection, when it is over."""

    def __init__(self, settings: ConnectionSettings, number: int, on_lost: Callable[["BrokerConnection"], None]):
        self._settings = settings
        self._dispatch = settings.dispatch
        self._versions: Any = settings.versions  # looked up by plain numbers, which equal the members of ApiKey
        self._on_lost = on_lost
        self._number = number
        self._memory = settings.memory.account(of_broker=settings.between_brokers)
        self._decoder = FrameDecoder(settings.max_request_size_bytes, self._memory)
        self._frames: deque[memoryview] = deque()
        self._handshake = settings.handshake() if settings.handshake is not None else None
        self._busy = False  # a request is being answered
        self._awaited: object = None  # what its handler waits for
        self._in_flight = InFlight()  # requests before that one, and their answers
        self._muted = 0  # throttled, by so many answers
        self._full = False  # the peer does not take its answers
        self._reading = True
        self._asked_bytes = 0  # memory that the frame which is being collected waits for
        self._frames_bytes = 0  # memory that the frames in ``_frames`` hold together
        self._closing = False
        self._lost = False
        self.active = True
        """Set by what is received and by a full queue that empties, reset by ``made_progress``."""
        # What was seen when ``made_progress`` was called last:
        self._frame_number = 0
        self._received_bytes = 0  # of that frame
        self._queued_bytes = self._taken_bytes = 0  # of answers

    def connectionMade(self) -> None:
        transport: Any = self.transport
        peer = transport.getPeer()
        host = transport.getHost()
        number = f"{host.host}:{host.port}-{peer.host}:{peer.port}-{self._number}"
        settings = self._settings
        self.context = RequestContext(
            settings.listener_name,
            settings.security_protocol,
            settings.principal,
            peer.host,
            peer.port,
            number,
            self._memory,
        )
        self._writer: Any = transport
        if hasattr(transport, "write_frame"):
            transport.receive_into(self._decoder, self.received, settings.memory)
        else:
            self._writer = CopyingFrameWriter(transport)

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self._busy or bool(self._in_flight)

    def made_progress(self, least_bytes: int) -> bool:
        """True if, since the last call, a frame began, ``least_bytes`` of an incomplete frame arrived, or the peer read
        ``least_bytes`` of the responses that fill the queue."""
        decoder = self._decoder
        number, received_bytes = self._frame_number, self._received_bytes
        self._frame_number, self._received_bytes = decoder.begun_count, decoder.buffered_size_bytes
        is_slow = (
            self.is_stalled and self._frame_number == number and self._received_bytes - received_bytes < least_bytes
        )
        made_progress = self.active and not is_slow
        self.active = False
        queued_bytes, taken_bytes = self._queued_bytes, self._taken_bytes
        self._queued_bytes = self._writer.queued_size_bytes
        if self._queued_bytes:
            self._taken_bytes = self._writer.taken_bytes()
            if queued_bytes:
                made_progress = self._taken_bytes - taken_bytes >= min(least_bytes, queued_bytes)
        if self._awaited is None and not self._busy and not self._frames:
            self._settle()
        return self._busy or bool(self._in_flight) or made_progress

    @property
    def is_stalled(self) -> bool:
        """Whether the rest of a request is all that is missing for it to be handled."""
        return self._decoder.missing is not None and self._reading and not self._busy

    @property
    def keeps_memory(self) -> bool:
        """Whether it holds memory for answers that its peer does not take."""
        return self._queued_bytes > 0 and self._memory.size_bytes > 0

    def expire_request_early(self) -> None:
        """Other requests wait for memory: if the request in progress holds some, end its wait (``ClientWait``)."""
        if isinstance(self._awaited, ClientWait) and self._memory.size_bytes:
            self._awaited.expire_early()

    def give_up_request(self, waited_s: float) -> None:
        """Close the connection: the request that is being collected does not come."""
        decoder = self._decoder
        _log.warn(
            "{connection} closed: {received} of the {size} bytes of a request came, then too little for {waited_s:g} s",
            connection=self._name,
            received=decoder.buffered_size_bytes,
            size=decoder.size_bytes,
            waited_s=waited_s,
        )
        self.abort()

    def give_up_answer(self, waited_s: float) -> None:
        """Close the connection: its peer does not take what it asked for, and others need the memory."""
        _log.warn(
            "{connection} closed: the peer took hardly anything of an answer for {waited_s:g} s; {size} bytes were"
            " left, and others wait for memory",
            connection=self._name,
            size=self._writer.queued_size_bytes,
            waited_s=waited_s,
        )
        self.abort()

    def received(self, count: int) -> None:
        """``count`` bytes were received into the frame that is being collected."""
        self.active = True
        try:
            frame = self._decoder.filled(count)
        except ProtocolError as error:
            self._refuse(error)
            return
        if frame is not None:
            self._frames.append(frame)
            self._frames_bytes += self._decoder.hand_over()
            self._handle_waiting()
        elif self._decoder.needed_bytes:
            self._wait_for_memory()

    def dataReceived(self, data: bytes | memoryview) -> None:
        if self._closing:
            return
        self.active = True
        try:
            self._frames.extend(self._decoder.feed(data))
        except ProtocolError as error:
            self._frames_bytes += self._decoder.hand_over()
            self._handle_waiting()
            self._refuse(error)
            return
        self._frames_bytes += self._decoder.hand_over()
        self._handle_waiting()
        if self._busy or self._decoder.missing is not None or self._frames:
            self._count(len(data))

    def _count(self, size_bytes: int) -> None:
        """Count ``size_bytes`` that were received in one piece and not all handled: the piece stays in memory until the
        last of its frames is handled."""
        if size_bytes > FREE_BYTES and self._frames:
            self._memory.take(size_bytes)
            self._frames_bytes += size_bytes
        elif size_bytes > FREE_BYTES and self._busy:
            self._memory.take_frame(size_bytes)
        if self._decoder.needed_bytes:
            self._wait_for_memory()

    def _wait_for_memory(self) -> None:
        """Read no further until the frame that is being collected gets the memory for its next step. The requests
        before it come first: they hold some, and give it back."""
        if self._reading:
            self._reading = False
            self._transport.pauseProducing()
        if self._busy or self._frames or self._asked_bytes:
            return
        self._asked_bytes = self._decoder.needed_bytes
        self._uses_reserve(int.from_bytes(self._decoder.beginning(2), "big"))
        self._memory.when_taken(self._asked_bytes, self._got_memory, self._decoder.size_bytes)

    def _uses_reserve(self, api_key: int) -> None:
        """Note whether the request may use the memory that is kept for brokers."""
        self._memory.of_broker = self._settings.between_brokers or api_key in BETWEEN_BROKERS

    def _got_memory(self) -> None:
        asked_bytes, self._asked_bytes = self._asked_bytes, 0
        if asked_bytes != self._decoder.needed_bytes:  # more came all the same, from a transport that reads ahead
            self._memory.give_back(asked_bytes)
            self._handle_waiting()
            return
        try:
            self._decoder.grow()
        except ProtocolError as error:
            self._refuse(error)
        else:
            self._handle_waiting()

    def _handle_waiting(self) -> None:
        """Handle the frames that are there; the answers to several leave together, in one system call."""
        if len(self._frames) > 1:
            self._writer.hold()
            self._handle_frames()
            self._writer.send_held()
        else:
            self._handle_frames()

    def _handle_frames(self) -> None:
        """Handle frames as far as nothing stands against it; read on only when there are none."""
        frames = self._frames
        for _ in range(REQUESTS_PER_TURN):
            if self._closing or self._busy or self._muted or self._full:
                break
            if not frames:
                if self._memory.size_bytes or not self._reading:
                    self._go_on_reading()
                return
            if self._in_flight and (self._in_flight.is_full or frames[0][:2] != _PRODUCE):
                break
            self._handle(frames.popleft())
        else:
            if not (self._muted or self._busy):  # a throttled peer stays muted for its time, or may yet have to be
                self._mute(0)
        if frames and self._reading:
            self._reading = False
            self._transport.pauseProducing()

    def _go_on_reading(self) -> None:
        """Everything is answered: what it held is free."""
        self._settle()
        if not self._reading:
            if self._decoder.needed_bytes:
                self._wait_for_memory()
            elif not self._closing:
                self._reading = True
                self._transport.resumeProducing()

    def _settle(self) -> None:
        """Give back what the last request held. What is left belongs to the frame that is being collected, to complete
        frames, to requests in flight and to responses in the queue."""
        memory = self._memory
        left_bytes = self._decoder.counted_bytes + self._frames_bytes + self._in_flight.kept_bytes
        if self._writer.queued_size_bytes:
            left_bytes += min(memory.size_bytes - left_bytes, self._writer.queued_memory_bytes)
        if memory.size_bytes != left_bytes:
            memory.settle(left_bytes)

    def _handle(self, frame: memoryview) -> None:
        """Answer the request in ``frame``, at once or later."""
        try:
            header, position = parse_request_header(frame)
            lowest, highest = self._versions.get(header.api_key, (0, -1))
            if lowest <= header.api_version <= highest:
                if header.api_key in BETWEEN_BROKERS or self._memory.of_broker:
                    self._uses_reserve(header.api_key)
                body = frame[position:]
                if self._handshake is None:
                    coroutine = self._dispatch(self.context, header, body)
                else:
                    coroutine = self._shake_hands(self._handshake, header, body)
            elif header.api_key == _API_VERSIONS:
                self._send([unsupported_version_response(header.correlation_id, (lowest, highest))])
                return
            else:
                raise ProtocolError(f"API {header.api_key} version {header.api_version} is not offered")
        except ProtocolError as error:
            self._refuse(error)
            return
        self._busy = True
        memory = self._memory
        memory.is_released = False
        if memory.size_bytes:
            self._settle()  # the request before this one may have come in the same piece
            if not self._frames:
                memory.frame_bytes, self._frames_bytes = self._frames_bytes, 0
        self._step(coroutine, header)

    async def _shake_hands(self, handshake: Handshake, header: RequestHeader, body: memoryview) -> Response:
        response, context = await handshake.request(self.context, header, body)
        if context is not None:
            self.context = context
            self._handshake = None
        return response

    def _step(
        self,
        coroutine: Coroutine[Any, Any, Response],
        header: RequestHeader,
        passed: InFlightRequest | None = None,
        failure: BaseException | None = None,
    ) -> None:
        """Run the coroutine until it waits or ends. A Deferred knows its own result, so None is sent in; while its
        callbacks run it does not tell its failure, which is thrown. ``passed``: not the request in work, but one that
        was in flight already."""
        try:
            if failure is None:
                awaited: Deferred[Any] = coroutine.send(None)
            else:
                awaited = coroutine.throw(failure)
        except StopIteration as end:
            if self._in_flight:
                self._answer_in_turn(header, passed, end.value)
            else:
                self._busy = False
                self._respond(header, end.value)
        except ClientGone:
            self._close()
        except Exception as error:
            if not isinstance(error, ProtocolError):
                _log.failure("{connection}: API {api_key} failed", connection=self._name, api_key=header.api_key)
            if self._in_flight:
                self._answer_in_turn(header, passed, error.with_traceback(None))
            else:
                self._give_up(error)
        else:
            self._wait(coroutine, header, passed, awaited)

    def _wait(
        self,
        coroutine: Coroutine[Any, Any, Response],
        header: RequestHeader,
        passed: InFlightRequest | None,
        awaited: "Deferred[Any]",
    ) -> None:
        """Go on with the request when what its handler awaits has a result."""
        kept_bytes = awaited.kept_bytes if isinstance(awaited, ClientWait) and not self._lost else None
        if passed is None and kept_bytes is not None:
            passed = self._in_flight.begin(header, kept_bytes)
            self._memory.take(kept_bytes)
            self._busy = False
        if passed is None:
            self._awaited = awaited
        else:
            passed.awaited = awaited
        if self._lost:
            _abandon(awaited)
        awaited.addBoth(self._resume, coroutine, header, passed).addErrback(self._failed)

    def _resume(
        self,
        result: object,
        coroutine: Coroutine[Any, Any, Response],
        header: RequestHeader,
        passed: InFlightRequest | None,
    ) -> None:
        if passed is None:
            self._awaited = None
        if isinstance(result, Failure):
            error: Any = result.value
            self._step(coroutine, header, passed, error)
            # Its traceback refers to all that the handler held, and to this frame, which refers to it.
            error.__traceback__ = None
        else:
            self._step(coroutine, header, passed)
        self._handle_waiting()
        if self._lost and self._awaited is None:
            self._memory.close()

    def _answer_in_turn(self, header: RequestHeader, passed: InFlightRequest | None, outcome: Outcome) -> None:
        """A request is done: send its answer, and those behind it that are ready, unless others are before it."""
        in_flight = self._in_flight
        if passed is None:
            passed = in_flight.begin(header)
            self._busy = False
        in_flight.end(passed, outcome)
        while in_flight and in_flight[0].is_done:
            done = in_flight.popleft()
            if isinstance(done.outcome, Exception):
                self._give_up(done.outcome)
            else:
                self._respond(done.header, done.outcome)

    def _give_up(self, error: Exception) -> None:
        """A request gets no answer, nor does any after it."""
        if isinstance(error, ProtocolError):
            self._refuse(error)
        else:
            self._close()

    def _failed(self, failure: Failure) -> None:
        """Something went wrong outside of the handler, as in ``on_response``: nobody else would hear of it."""
        _log.failure("{connection}: no answer", failure, connection=self._name)
        self._close()

    def _respond(self, header: RequestHeader, parts: Response) -> None:
        if self._closing:
            return
        settings = self._settings
        mute_ms = 0 if settings.on_response is None else settings.on_response(self.context, header, parts)
        if parts is not None:
            if len(parts) > 1 and settings.read_ahead is not None:
                waiting = settings.read_ahead(parts)
                if waiting is not None:
                    self._busy = True
                    self._send_when_read(waiting, parts, mute_ms)
                    return
            self._send(parts)
        if mute_ms:
            self._mute(mute_ms)

    def _send(self, parts: list[Part]) -> None:
        writer = self._writer
        writer.write_frame(parts)
        if writer.queued_size_bytes > QUEUE_FULL_BYTES:
            self._full = True
            writer.on_drained = self._drained

    def _send_when_read(self, waiting: "Deferred[None]", parts: list[Part], mute_ms: int) -> None:
        """The slices are held while a thread reads them; the connection stays busy."""
        held = ExitStack()
        try:
            for part in parts:
                if not isinstance(part, bytes | bytearray | memoryview):
                    part.retain()
                    held.callback(part.release)
        except OSError as error:  # the file is gone, or too many are open
            held.close()
            _log.warn(
                "{connection} closed: its answer cannot be read: {error}", connection=self._name, error=str(error)
            )
            self.abort()
            return

        def send(_result: object) -> None:
            self._busy = False
            with held:
                if not self._closing:
                    self._send(parts)
                    if mute_ms > 0:
                        self._mute(mute_ms)
            self._handle_waiting()

        waiting.addBoth(send).addErrback(self._failed)

    def _mute(self, mute_ms: int) -> None:
        self._muted += 1
        self._settings.clock.callLater(mute_ms / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted -= 1
        self._handle_waiting()

    def _drained(self) -> None:
        self.active = True
        self._full = False
        self._handle_waiting()

    def _forget_frames(self) -> None:
        """Drop the frames that are not handled; the account still counts what they held."""
        self._frames.clear()
        self._frames_bytes = 0
        self._decoder.close()

    @property
    def _transport(self) -> Any:
        return self.transport

    @property
    def _name(self) -> str:
        return self.context.connection_id

    def _refuse(self, error: ProtocolError) -> None:
        if not self._closing:
            if not isinstance(error, OtherProtocol) or self._settings.foreign_peers.is_first(self.context.peer_host):
                _log.warn("{connection} closed: {error}", connection=self._name, error=str(error))
            self._close()

    def _close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._busy = False  # or a peer that takes nothing more would never be idle
        self._forget_frames()
        if self._awaited is None:
            self._memory.withdraw()
            self._settle()
        if isinstance(self._writer, CopyingFrameWriter):
            self._writer.finish()
        self._transport.loseConnection()

    def close(self) -> None:
        """End the connection once what is queued has left; nothing more is handled."""
        if not self._closing:
            self._close()

    def abort(self) -> None:
        """End the connection now."""
        self._closing = True
        self._forget_frames()
        self._transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:
        """Drop the responses of requests in progress, and abandon those that await a ``ClientWait``.

        Frames are freed here, not when the collector finds this connection."""
        self._closing = self._lost = True
        self._forget_frames()
        for awaited in [request.awaited for request in self._in_flight]:
            _abandon(awaited)
        _abandon(self._awaited)
        if self._awaited is None:
            self._memory.close()
        self._on_lost(self)


def _abandon(awaited: object) -> None:
    if isinstance(awaited, ClientWait):
        awaited.abandon()
