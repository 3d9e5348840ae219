"""A client's connection to a broker: many requests in flight, matched to responses by correlation id.

The client first sends ApiVersions in its highest version. If the broker responds with error 35, the client repeats it
in the version that the response names, or in version 0 (KIP-511).

When the connection is lost, pending requests fail with the reason. A timeout closes the connection: responses arrive in
order, so later ones would be late, too.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred, fail
from twisted.internet.error import ConnectionClosed, ConnectionDone
from twisted.internet.protocol import ClientFactory
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk import __version__
from kafka_zk.base.clock import Timers
from kafka_zk.network.transport import FrameConnector
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.frame import FrameDecoder
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.protocol.request import correlation_id_of, request_header, response_body_position
from kafka_zk.protocol.response_limits import max_response_bytes
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity, SaslSettings

if TYPE_CHECKING:
    from kafka_zk.network.sasl_authentication import SaslAuthentication

REQUEST_TIMEOUT_S = 30.0
_Versions = Mapping[int, tuple[int, int]]

_CLIENT_SOFTWARE = "kafka-zk"
_log = Logger()


class RequestTimedOut(ConnectionClosed):
    """The broker did not respond in time, so the connection was closed."""


class _Waiting(NamedTuple):
    api_key: int
    version: int
    deadline_s: float
    answer: "Deferred[memoryview]"


class KafkaConnection(TwistedProtocol):
    """A connection to a broker, created by ``connect``.

    Attributes:
        versions: API key -> the broker's lowest and highest version; empty until ``negotiate`` is done.
        on_disconnect: called once with the reason, a Failure.
        lost: why the connection was lost; None while it is open.
        made: fires when TCP is connected, before a TLS handshake.
    """

    def __init__(self, clock: Timers, client_id: str | None, request_timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self.client_id = client_id
        self.versions: dict[int, tuple[int, int]] = {}
        self.on_disconnect: Callable[[Failure], None] | None = None
        self.lost: Failure | None = None
        self.made: Deferred[None] = Deferred()
        self._clock = clock
        self._request_timeout_s = request_timeout_s
        self._decoder = FrameDecoder(0)  # no frame is accepted until a response is expected
        self._waiting: dict[int, _Waiting] = {}
        self._correlation_id = 0
        self._timer: Any = None
        self._unwanted = False  # ``abandon`` was called before the connection was established
        self._end_reason: Exception | None = None
        self._disconnected: list[Deferred[None]] = []
        self._authentication: SaslAuthentication | None = None

    @property
    def connected_to_broker(self) -> bool:
        return self.lost is None and bool(self.connected)

    @property
    def in_flight(self) -> int:
        """Number of requests that wait for their response."""
        return len(self._waiting)

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        transport.setTcpKeepAlive(True)
        transport.receive_into(self._decoder, self._received)
        self._write_frame: Callable[[Sequence[Part]], None] = transport.write_frame
        if self._unwanted:
            transport.loseConnection()
        self.made.callback(None)

    def version_for(self, api_key: int) -> int:
        """The highest version that both sides support. Raises ApiError(UNSUPPORTED_VERSION)."""
        lowest, highest = BROKER_VERSIONS[ApiKey(api_key)]
        offered_lowest, offered_highest = self.versions.get(api_key, (0, -1))
        version = min(highest, offered_highest)
        if version < max(lowest, offered_lowest):
            told = f"{ApiKey(api_key).name}: this client and the broker have no version in common"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, told)
        return version

    def request(
        self,
        api_key: int,
        message: codec.Message | Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        timeout_s: float | None = None,
        **fields: Any,
    ) -> "Deferred[codec.Message]":
        """Send now. Fires with the decoded response.

        Args:
            message: an instance of ``codec.request(api_key)``, a mapping of its fields, or None.
            version: None: the highest that both sides support.
            timeout_s: None: the connection's timeout.
            fields: in addition to those of ``message``.
        Fails with: ApiError(UNSUPPORTED_VERSION); ConnectionClosed, RequestTimedOut; ProtocolError for an invalid
        response.
        """
        try:
            used_version = self.version_for(api_key) if version is None else version
        except ApiError as error:
            return fail(error)
        if message is None or isinstance(message, Mapping):
            message = codec.request(api_key)(**(message or {}), **fields)
        return self.request_encoded(
            api_key, used_version, codec.encode_body(message, api_key, used_version), timeout_s=timeout_s
        )

    def request_encoded(
        self, api_key: int, version: int, body: Buffer, *, timeout_s: float | None = None
    ) -> "Deferred[codec.Message]":
        """Like ``request``, for an encoded body, which must not change before it is sent."""
        answer = self.send_raw(api_key, version, [body], timeout_s=timeout_s)
        return answer.addCallback(lambda frame: codec.decode_response(api_key, version, frame))

    def send_raw(
        self,
        api_key: int,
        version: int,
        body_parts: Sequence[Buffer],
        *,
        expect_response: bool = True,
        timeout_s: float | None = None,
    ) -> "Deferred[memoryview]":
        """Send the parts of a body without joining them; they must not change before they are sent. Fires with the
        response's body; without ``expect_response`` (acks=0), fires with an empty body when the request is queued.
        """
        if self.lost is not None:
            return fail(self.lost)
        correlation_id = self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        answer: Deferred[memoryview] = Deferred()
        if expect_response:
            timeout_s = self._request_timeout_s if timeout_s is None else timeout_s
            deadline_s = self._clock.seconds() + timeout_s
            self._waiting[correlation_id] = _Waiting(api_key, version, deadline_s, answer)
            limit_bytes = max_response_bytes(api_key, version, body_parts[0], sum(map(len, body_parts)))
            self._decoder.max_frame_size_bytes = max(self._decoder.max_frame_size_bytes, limit_bytes)
            if self._timer is None:
                self._timer = self._clock.callLater(timeout_s, self._check_deadlines)
            elif self._timer.getTime() > deadline_s:
                self._timer.reset(timeout_s)
        parts: list[Part] = [request_header(api_key, version, correlation_id, self.client_id), *body_parts]
        self._write_frame(parts)
        if not expect_response:
            answer.callback(memoryview(b""))
        return answer

    def hold_requests(self) -> None:
        """Hold requests until ``release_requests``."""
        self._held: list[Sequence[Part]] = []
        self._write_frame = self._held.append

    def release_requests(self) -> None:
        transport: Any = self.transport
        self._write_frame = transport.write_frame
        held, self._held = self._held, []
        for parts in held:
            transport.write_frame(parts)

    def request_past_hold(self, api_key: int, fields: Mapping[str, Any]) -> "Deferred[codec.Message]":
        """Like ``request``, but send immediately, even while requests are held."""
        transport: Any = self.transport
        usual, self._write_frame = self._write_frame, transport.write_frame
        try:
            return self.request(api_key, fields)
        finally:
            self._write_frame = usual

    def _check_deadlines(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        wait_s = min(waiting.deadline_s for waiting in self._waiting.values()) - self._clock.seconds()
        if wait_s > 0:
            self._timer = self._clock.callLater(wait_s, self._check_deadlines)
        else:
            self.end(RequestTimedOut("the broker did not answer in time"))

    def dataReceived(self, data: bytes | memoryview) -> None:
        try:
            for frame in self._decoder.feed(data):
                self._take(frame)
        except ProtocolError as error:
            self.end(error)

    def _received(self, count: int) -> None:
        frame = self._decoder.filled(count)
        if frame is not None:
            try:
                self._take(frame)
            except ProtocolError as error:
                self.end(error)

    def _take(self, frame: memoryview) -> None:
        correlation_id = correlation_id_of(frame)
        waiting = self._waiting.pop(correlation_id, None)
        if waiting is None:
            raise ProtocolError(f"a response to request {correlation_id}, which was never sent")
        if not self._waiting:
            self._decoder.max_frame_size_bytes = 0
        try:
            body = frame[response_body_position(frame, waiting.api_key, waiting.version) :]
        except ProtocolError as error:
            waiting.answer.errback(Failure(error))
            raise
        waiting.answer.callback(body)

    def end(self, reason: Exception) -> None:
        """Abort; pending requests fail with ``reason``."""
        if self._end_reason is None and self.lost is None:
            self._end_reason = reason
            _log.info("connection to {peer} closed: {reason}", peer=self._peer, reason=str(reason))
            transport: Any = self.transport
            transport.abortConnection()

    @property
    def _peer(self) -> str:
        transport: Any = self.transport
        peer = transport.getPeer()
        return f"{peer.host}:{peer.port}"

    def abandon(self) -> None:
        """Close the connection now, or as soon as it is established."""
        if self.transport is None:
            self._unwanted = True
        else:
            self.disconnect()

    def disconnect(self) -> "Deferred[None]":
        """Close the connection. Fires when it is closed. Pending requests fail."""
        done: Deferred[None] = Deferred()
        if self.lost is not None:
            done.callback(None)
        else:
            self._disconnected.append(done)
            transport: Any = self.transport
            transport.loseConnection()
        return done

    def connectionLost(self, reason: Any = None) -> None:
        if self._end_reason is not None:
            reason = Failure(self._end_reason)
        self.lost = Failure(ConnectionDone()) if reason is None else reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._authentication is not None:
            self._authentication.stop()
        self._decoder.close()  # frees a partial response
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.answer.errback(self.lost)
        if self.on_disconnect is not None:
            try:
                self.on_disconnect(self.lost)
            except Exception:
                _log.failure("the end of a connection could not be handled")
        disconnected, self._disconnected = self._disconnected, []
        for done in disconnected:
            done.callback(None)

    async def negotiate(self) -> None:
        """Ask the broker for its API versions. Raises ApiError for an error code."""
        version = BROKER_VERSIONS[ApiKey.API_VERSIONS][1]
        error_code, offered = await self._api_versions(version)
        if error_code == ErrorCode.UNSUPPORTED_VERSION:
            _, highest = offered.get(ApiKey.API_VERSIONS, (0, 0))
            error_code, offered = await self._api_versions(min(version, highest))
        if error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode.of(error_code))
        self.versions = dict(offered)

    async def authenticate(self, settings: SaslSettings, host: str) -> None:
        """Log in, and again before each session ends. Raises like ``SaslAuthentication``."""
        from kafka_zk.network.sasl_authentication import SaslAuthentication  # most clusters have no SASL

        self._authentication = SaslAuthentication(self._clock, self, settings, host)
        await self._authentication.authenticate()

    async def _api_versions(self, version: int) -> tuple[int, _Versions]:
        frame = await self.send_raw(ApiKey.API_VERSIONS, version, [_api_versions_request(version)])
        return _read_api_versions(version, bytes(frame))


@cache
def _api_versions_request(version: int) -> bytes:
    message = codec.request(ApiKey.API_VERSIONS)(
        client_software_name=_CLIENT_SOFTWARE, client_software_version=__version__
    )
    return bytes(codec.encode_body(message, ApiKey.API_VERSIONS, version))


@lru_cache(maxsize=8)
def _read_api_versions(version: int, body: bytes) -> tuple[int, _Versions]:
    """Cached: brokers of one version send the same bytes."""
    answer = codec.decode_response(ApiKey.API_VERSIONS, version, body)
    offered = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys or []}
    return answer.error_code, offered


class _Connects(Protocol):
    def connect(self) -> object: ...


Connector = Callable[[str, int, Any, float, Any, Any], _Connects]
"""(host, port, protocol factory, timeout in s, address to bind, reactor) -> connector: a ``FrameConnector`` or the
simulator's replacement."""


class _ConnectionFactory(ClientFactory[KafkaConnection]):
    noisy = False

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    def buildProtocol(self, addr: Any) -> KafkaConnection:
        return self._connection

    def clientConnectionFailed(self, connector: Any, reason: Failure) -> None:
        self._connection.made.errback(reason)


Connect = Callable[..., Awaitable[KafkaConnection]]
"""The type of ``connect`` and of the simulator's replacement."""


def connect(
    reactor: Any,
    host: str,
    port: int,
    client_id: str | None = None,
    timeout_s: float = 10.0,
    *,
    request_timeout_s: float = REQUEST_TIMEOUT_S,
    negotiate: bool = True,
    security: ClientSecurity = NO_SECURITY,
    connector: Connector = FrameConnector,
) -> "Deferred[KafkaConnection]":
    """Connect to ``host:port`` and negotiate versions.

    Args:
        timeout_s: for connecting.
        negotiate: if False (old brokers, tests), requests must name their version, and SASL is skipped.
        connector: ignored if ``security`` has TLS.

    Fails with: ConnectError, ConnectionClosed, RequestTimedOut, ApiError; with ``security`` also AuthenticationFailed,
    TokenUnavailable, InvalidSecurity.
    """
    if security.tls is not None:
        from kafka_zk.network.tls_transport import TlsConnector  # imported here, because it loads OpenSSL

        connector = partial(TlsConnector, security.tls)
    connection = KafkaConnection(reactor, client_id, request_timeout_s)

    def start() -> None:
        connector(host, port, _ConnectionFactory(connection), timeout_s, None, reactor).connect()

    return Deferred.fromCoroutine(_set_up(connection, start, negotiate, security.sasl, host))


async def _set_up(
    connection: KafkaConnection, start: Callable[[], None], negotiate: bool, sasl: SaslSettings | None, host: str
) -> KafkaConnection:
    try:
        start()
        await connection.made
        if negotiate:
            await connection.negotiate()
            if sasl is not None:
                await connection.authenticate(sasl, host)
    except BaseException:
        connection.abandon()
        raise
    return connection
