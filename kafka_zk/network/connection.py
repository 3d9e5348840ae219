"""A server-side connection: receives frames, handles requests, sends responses.

One request is handled at a time. Nothing is read during a request, while the outgoing queue is full or the peer is
throttled (``connection_output``), or while there is no memory for the next frame (``connection_input``). A request's
handler is a coroutine that this module steps. If it never waits, the response is sent before ``dataReceived`` returns.

Produce requests are pipelined: while one waits only for other brokers, the next begins (``in_flight``). Responses keep
the requests' order.

The handshake handles requests until it returns a context, and again when the session ends. ``dispatch`` handles all
others. A protocol error closes the connection.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.base.turns import ClientWait
from kafka_zk.network.addresses import peer_address
from kafka_zk.network.connection_input import BETWEEN_BROKERS, ConnectionInput
from kafka_zk.network.connection_output import ConnectionOutput, hold_slices
from kafka_zk.network.connection_settings import ANONYMOUS, AwaitsCertificate, ConnectionSettings, HandshakeStep
from kafka_zk.network.connection_states import (
    AUTHENTICATED,
    BEGIN,
    CLOSE,
    CLOSED_PHASES,
    END,
    LIMIT,
    LOSE,
    READ,
    RESUME,
    SEND,
    SHAKE_AGAIN,
    WAIT,
    Input,
    Output,
    Phase,
    Slot,
)
from kafka_zk.network.in_flight import InFlight, InFlightRequest, Outcome, Response
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.api_versions import unsupported_version_response
from kafka_zk.protocol.errors import OtherProtocol, ProtocolError
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.request import NO_REQUEST, RequestContext, RequestHeader, parse_request_header

REQUESTS_PER_TURN = 64
"""Maximum number of requests from one read that are handled before other connections get a turn."""

_API_VERSIONS = int(ApiKey.API_VERSIONS)
_PRODUCE = int(ApiKey.PRODUCE).to_bytes(2, "big")  # the first bytes of a frame
_HANDSHAKING, _OPEN = Phase.HANDSHAKING, Phase.OPEN
_IDLE, _READING, _READY = Slot.IDLE, Input.READING, Output.READY
_BARE = RequestHeader(NO_REQUEST, 0, 0, None)
_log = Logger()  # at module level: a class's logger would keep the connection in its events


class BrokerConnection(TwistedProtocol):
    """``on_lost`` is called once, when the connection is lost."""

    context: RequestContext

    def __init__(self, settings: ConnectionSettings, number: int, on_lost: Callable[["BrokerConnection"], None]):
        self._settings = settings
        self._versions: Any = settings.versions  # Any, because lookups use plain ints as API keys
        self._on_lost = on_lost
        self._number = number
        self._input = ConnectionInput(settings)
        self._memory = self._input.memory
        self._frames = self._input.frames
        self._decoder = self._input.decoder
        self._output = ConnectionOutput(settings.clock)
        self._phase = Phase.OPEN
        if settings.has_handshake:
            self._phase = Phase.HANDSHAKING
            self._handshake = AwaitsCertificate() if settings.handshake is None else settings.handshake()
            self._decoder.max_frame_size_bytes = self._handshake.max_frame_size_bytes
        self._session_end: Any = None  # timer at the end of the handshake's lifetime
        self._slot = Slot.IDLE
        self._awaited: object = None  # the Deferred that the handler of the request in the slot awaits
        self._in_flight = InFlight()  # requests older than the one in the slot
        self.active = True
        """True if bytes were received or a full queue was drained since ``SupervisedConnection`` last reset it."""

    def connectionMade(self) -> None:
        transport: Any = self.transport
        peer = transport.getPeer()
        host = transport.getHost()
        number = f"{host.host}:{host.port}-{peer.host}:{peer.port}-{self._number}"
        settings = self._settings
        self.context = RequestContext(
            settings.listener_name,
            settings.security_protocol,
            ANONYMOUS,
            peer_address(peer.host),
            peer.port,
            number,
            self._memory,
        )
        self._input.connect(transport)
        transport.receive_into(self._decoder, self.received, settings.memory)
        self._output.writer = transport

    def received(self, count: int) -> None:
        self.active = True
        try:
            is_complete = self._input.filled(count)
        except ProtocolError as error:
            self._refuse(error)
            return
        if is_complete:
            self._handle_waiting()
        elif self._decoder.needed_bytes:
            self._wait_for_memory()

    def dataReceived(self, data: bytes | memoryview) -> None:
        if self._phase in CLOSED_PHASES:
            return
        self.active = True
        try:
            self._frames.extend(self._decoder.feed(data))
        except ProtocolError as error:
            self._handle_waiting()
            self._refuse(error)
            return
        self._handle_waiting()
        is_idle = self._slot is _IDLE
        if not is_idle or self._decoder.missing is not None or self._frames:
            self._input.count(len(data), is_idle=is_idle)
            if self._decoder.needed_bytes:
                self._wait_for_memory()

    def _wait_for_memory(self) -> None:
        """Do not read until there is memory for the next step of the incomplete frame.

        Memory is requested only when earlier requests, which return memory, are done, and if the peer is not muted and
        reads its responses.
        """
        self._input.pause()
        if self._slot is _IDLE and not self._frames and self._output.state is _READY:
            self._input.ask(self._got_memory)

    def _got_memory(self) -> None:
        try:
            self._input.granted()
        except ProtocolError as error:
            self._refuse(error)
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Like ``_handle_waiting``, but called by timers and other connections: errors close only this connection."""
        try:
            self._handle_waiting()
        except Exception:
            self._failed(Failure())

    def _handle_waiting(self) -> None:
        """Handle complete frames; their responses are sent in one system call."""
        if len(self._frames) > 1:
            self._output.writer.hold()
            self._handle_frames()
            self._output.writer.send_held()
        else:
            self._handle_frames()

    def _handle_frames(self) -> None:
        """Handle frames until a request waits or the output is not ready. If no frame is left, read again."""
        frames, output = self._frames, self._output
        for _ in range(REQUESTS_PER_TURN):
            if self._slot is not _IDLE or output.state is not _READY or self._phase in CLOSED_PHASES:
                break
            if not frames:
                if self._memory.size_bytes or self._input.state is not _READING:
                    self._go_on_reading()
                return
            if self._in_flight and (self._in_flight.is_full or frames[0][:2] != _PRODUCE):
                break
            self._handle(frames.popleft())
        else:
            if self._slot is _IDLE and not output.is_muted:  # otherwise the request or the throttle resumes it
                output.mute(0, self._go_on)
        if frames:
            self._input.pause()

    def _go_on_reading(self) -> None:
        self._settle()
        if self._input.is_reading:
            return
        if self._decoder.needed_bytes:
            self._wait_for_memory()
        elif self._phase not in CLOSED_PHASES:
            self._input.resume()

    def _settle(self) -> None:
        self._input.settle(self._in_flight.kept_bytes, self._output.queued_memory_bytes)

    def _handle(self, frame: memoryview) -> None:
        if self._phase is _HANDSHAKING and self._handshake.takes_bare_frames:
            self._slot = BEGIN[self._slot]
            self._step(self._shake_hands(self._handshake.bare_frame(self.context, frame)), _BARE)
            return
        try:
            header, position = parse_request_header(frame)
            lowest, highest = self._versions.get(header.api_key, (0, -1))
            if lowest <= header.api_version <= highest:
                if header.api_key in BETWEEN_BROKERS or self._memory.of_broker:
                    self._input.uses_reserve(header.api_key)
                if self._phase is not _OPEN and self._is_of_handshake(header):
                    handshake = self._handshake.request(self.context, header, frame[position:])
                    coroutine = self._shake_hands(handshake)
                else:
                    coroutine = self._settings.dispatch(self.context, header, frame[position:])
            elif header.api_key == _API_VERSIONS:
                response = unsupported_version_response(header.correlation_id, (lowest, highest))
                if self._phase is not _HANDSHAKING:
                    self._output.send([response], self._drained)
                    return
                coroutine = self._shake_hands(self._handshake.unknown_version(self.context, header, response))
            else:
                raise ProtocolError(f"API {header.api_key} version {header.api_version} is not offered")
        except ProtocolError as error:
            self._refuse(error)
            return
        self._slot = BEGIN[self._slot]
        memory = self._memory
        memory.is_released = False
        if memory.size_bytes:
            self._settle()  # returns the memory of the previous request, which may have come in the same read
            if not self._frames:
                self._input.hand_over_frames()
        self._step(coroutine, header)

    async def _shake_hands(self, handshake: Coroutine[Any, Any, HandshakeStep]) -> Response:
        response, context, is_refused, lifetime_ms = await handshake
        if context is not None:
            self._authenticated(context, lifetime_ms)
        if is_refused:
            self._settings.clock.callLater(0, self.close)  # closes after the response was sent
        return response

    def _is_of_handshake(self, header: RequestHeader) -> bool:
        if self._phase is Phase.LIMITED and self._handshake.begins_again(header):
            self._shake_again()
        return self._phase is _HANDSHAKING

    def _shake_again(self) -> None:
        self._phase = SHAKE_AGAIN[self._phase]
        self._forget_session_end()

    def _forget_session_end(self) -> None:
        timer, self._session_end = self._session_end, None
        if timer is not None and timer.active():
            timer.cancel()

    def tls_established(self, certificate: bytes | None) -> None:
        """Called when the TLS handshake is done. ``certificate``: the peer's, verified, as DER, if any."""
        if self._settings.principal_of is None:
            return
        try:
            principal = self._settings.principal_of(certificate)
        except ValueError as error:
            self._refuse(ProtocolError(f"the subject of the peer's certificate cannot be read: {error}"))
            return
        if principal is None:
            self._refuse(ProtocolError("ssl.principal.mapping.rules: no rule matches the peer's certificate"))
        else:
            self._authenticated(self.context._replace(principal=principal))

    def _authenticated(self, context: RequestContext, lifetime_ms: int | None = None) -> None:
        self.context = context
        if lifetime_ms is None:
            self._phase = AUTHENTICATED[self._phase]
        elif lifetime_ms > 0 and self._phase is _HANDSHAKING:  # with 0 ms, the session has already ended
            self._phase = LIMIT[self._phase]
            self._session_end = self._settings.clock.callLater(lifetime_ms / 1000, self._shake_again)
        self._decoder.max_frame_size_bytes = self._settings.max_request_size_bytes
        self._input.authenticated()

    def _step(
        self,
        coroutine: Coroutine[Any, Any, Response],
        header: RequestHeader,
        passed: InFlightRequest | None = None,
        failure: BaseException | None = None,
    ) -> None:
        """Run the coroutine until it awaits or ends.

        The coroutine reads a result from the Deferred that it awaits, so None is sent into it. A failure is thrown into
        it, because a Deferred hides its failure during callbacks. ``passed``: the request in flight to continue; None:
        the one in the slot.
        """
        try:
            if failure is None:
                awaited: Deferred[Any] = coroutine.send(None)
            else:
                awaited = coroutine.throw(failure)
        except StopIteration as end:
            if passed is None:
                self._slot = END[self._slot]
            if self._in_flight:
                self._answer_in_turn(header, passed, end.value)
            else:
                self._respond(header, end.value)
        except ClientGone:
            if passed is None:
                self._slot = END[self._slot]
            self.close()
        except Exception as error:
            if passed is None:
                self._slot = END[self._slot]
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
        """Resume when ``awaited`` fires. A request that waits only for other brokers leaves the slot and is in
        flight."""
        is_lost = self._phase is Phase.LOST
        kept_bytes = awaited.kept_bytes if isinstance(awaited, ClientWait) and not is_lost else None
        if passed is None and kept_bytes is not None:
            passed = self._in_flight.begin(header, kept_bytes)
            self._memory.take(kept_bytes)
            self._slot = END[self._slot]
        if passed is None:
            self._slot = WAIT[self._slot]
            self._awaited = awaited
        else:
            passed.awaited = awaited
        if is_lost:
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
            self._slot = RESUME[self._slot]
            self._awaited = None
        if isinstance(result, Failure):
            error: Any = result.value
            self._step(coroutine, header, passed, error)
            # Break the cycle: the traceback refers to this frame and the handler's variables.
            error.__traceback__ = None
        else:
            self._step(coroutine, header, passed)
        self._handle_waiting()
        if self._phase is Phase.LOST and self._slot is not Slot.WAITING:
            self._memory.close()

    def _answer_in_turn(self, header: RequestHeader, passed: InFlightRequest | None, outcome: Outcome) -> None:
        """Send this response and completed later ones, unless earlier requests are in flight."""
        in_flight = self._in_flight
        if passed is None:
            passed = in_flight.begin(header)
        in_flight.end(passed, outcome)
        while in_flight and in_flight[0].is_done:
            done = in_flight.popleft()
            if isinstance(done.outcome, Exception):
                self._give_up(done.outcome)
            else:
                self._respond(done.header, done.outcome)

    def _give_up(self, error: Exception) -> None:
        """Close the connection; later requests get no response either."""
        if isinstance(error, ProtocolError):
            self._refuse(error)
        else:
            self.close()

    def _failed(self, failure: Failure) -> None:
        _log.failure("{connection}: the response could not be sent", failure, connection=self._name)
        self.close()

    def _respond(self, header: RequestHeader, parts: Response) -> None:
        if self._phase in CLOSED_PHASES:
            return
        settings = self._settings
        mute_ms = (
            0 if settings.on_response is None or parts.__class__ is settings.unheard
            else settings.on_response(self.context, header, parts)
        )  # fmt: skip
        if parts is not None:
            if len(parts) > 1 and settings.read_ahead is not None:
                waiting = settings.read_ahead(parts)
                if waiting is not None:
                    self._send_when_read(waiting, parts, mute_ms)
                    return
            self._output.send(parts, self._drained)
        if mute_ms:
            self._output.mute(mute_ms, self._go_on)

    def _send_when_read(self, waiting: "Deferred[None]", parts: list[Part], mute_ms: int) -> None:
        """Keep the slices open and the request in the slot while a thread reads the slices."""
        self._slot = READ[self._slot]
        try:
            held = hold_slices(parts)
        except OSError as error:
            _log.warn(
                "{connection} closed: its response cannot be read: {error}", connection=self._name, error=str(error)
            )
            self.abort()
            return

        def send(_result: object) -> None:
            self._slot = SEND[self._slot]
            with held:
                if self._phase not in CLOSED_PHASES:
                    self._output.send(parts, self._drained)
                    if mute_ms > 0:
                        self._output.mute(mute_ms, self._go_on)
            self._handle_waiting()

        waiting.addBoth(send).addErrback(self._failed)

    def _drained(self) -> None:
        self.active = True
        self._output.drained()
        self._handle_waiting()

    @property
    def _transport(self) -> Any:
        return self.transport

    @property
    def _name(self) -> str:
        return self.context.connection_id

    def _refuse(self, error: ProtocolError) -> None:
        if self._phase not in CLOSED_PHASES:
            said: str | None = ""
            if isinstance(error, OtherProtocol):
                said = self._settings.foreign_peers.mention(self.context.peer_host, self._settings.clock.seconds())
            if said is not None:
                _log.warn("{connection} closed: {error}{said}", connection=self._name, error=str(error), said=said)
            self.close()

    def close(self) -> None:
        """Send the queue, ignore further frames, and close."""
        if self._phase in CLOSED_PHASES:
            return
        self._phase = CLOSE[self._phase]
        self._input.forget()
        if self._slot is not Slot.WAITING:
            self._memory.withdraw()
            self._settle()
        self._output.writer.loseConnection()

    def abort(self) -> None:
        self._phase = CLOSE[self._phase]
        self._input.forget()
        self._transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:
        """Drop the responses of requests in progress, abandon those that await a ``ClientWait``, and free the frames
        without garbage collection."""
        self._phase = LOSE[self._phase]
        self._forget_session_end()
        self._input.forget()
        self._output.lost()
        for awaited in [request.awaited for request in self._in_flight]:
            _abandon(awaited)
        _abandon(self._awaited)
        if self._slot is not Slot.WAITING:
            self._memory.close()
        self._on_lost(self)


def _abandon(awaited: object) -> None:
    if isinstance(awaited, ClientWait):
        awaited.abandon()
