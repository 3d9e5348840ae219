"""Settings that all connections of a listener share."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from kafka_zk.base.clock import Timers
from kafka_zk.network.foreign_peers import ForeignPeers
from kafka_zk.network.in_flight import Response
from kafka_zk.network.memory_pool import UNBOUNDED, MemoryPool
from kafka_zk.network.read_ahead import ReadAhead
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import RequestContext, RequestHeader

ANONYMOUS = "User:ANONYMOUS"
"""The principal of an unauthenticated peer."""

MOST_BYTES_BEFORE_LOGIN = 16 * 1024
"""Maximum frame size before login. Parsing a login message blocks all connections, and no mechanism here needs more.
``sasl.server.max.receive.size`` (512 KB in Kafka) is ignored."""

Dispatch = Callable[[RequestContext, RequestHeader, memoryview], Coroutine[Any, Any, Response]]
"""Handles a request; the memoryview is its body."""

ResponseHook = Callable[[RequestContext, RequestHeader, Response], int]
"""Called with each response before it is sent; may write the throttle time into it. Returns the number of ms for which
to mute the peer.
"""


class HandshakeStep(NamedTuple):
    """The response to one request of a handshake.

    Attributes:
        context: the context of all later requests; None until the handshake has succeeded.
        is_refused: close the connection afterwards.
        lifetime_ms: time after which the peer must authenticate again; None: no limit.
    """

    response: Response
    context: RequestContext | None = None
    is_refused: bool = False
    lifetime_ms: int | None = None


class Handshake(Protocol):
    """Handles requests until the peer is authenticated, and again when its session ends.

    Attributes:
        takes_bare_frames: the next frame has no request header (SaslHandshake version 0).
        max_frame_size_bytes: the limit until the handshake has succeeded.
    """

    takes_bare_frames: bool
    max_frame_size_bytes: int

    def request(
        self, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, HandshakeStep]:
        """Raises ProtocolError to close the connection without a response."""

    def unknown_version(
        self, context: RequestContext, header: RequestHeader, versions: bytes
    ) -> Coroutine[Any, Any, HandshakeStep]:
        """Handle an ApiVersions request of an unknown version. ``versions``: the response with the known ones. Raises
        ProtocolError."""

    def begins_again(self, header: RequestHeader) -> bool:
        """True if a request in the session begins another handshake."""

    def bare_frame(self, context: RequestContext, frame: memoryview) -> Coroutine[Any, Any, HandshakeStep]:
        """Handle one frame without a request header. Raises ProtocolError."""


class AwaitsCertificate:
    """TLS without SASL: rejects all requests before the peer's certificate is verified."""

    takes_bare_frames = False
    max_frame_size_bytes = MOST_BYTES_BEFORE_LOGIN

    async def request(self, context: RequestContext, header: RequestHeader, body: memoryview) -> HandshakeStep:
        raise ProtocolError("a request before the certificate is known")

    async def unknown_version(self, context: RequestContext, header: RequestHeader, versions: bytes) -> HandshakeStep:
        raise ProtocolError("a request before the certificate is known")

    def begins_again(self, header: RequestHeader) -> bool:
        return False

    async def bare_frame(self, context: RequestContext, frame: memoryview) -> HandshakeStep:
        raise ProtocolError("a frame before the certificate is known")


@dataclass(slots=True)
class ConnectionSettings:
    """Settings of one listener's connections.

    Args:
        dispatch: handles a request and its errors; exceptions are logged and close the connection.
        versions: API key -> lowest and highest offered. Requests in other versions, except ApiVersions, close
            the connection.
        max_request_size_bytes: socket.request.max.bytes.
        handshake: creates the ``Handshake`` of a connection; None without SASL.
        principal_of: for TLS without SASL: returns the principal of a certificate (None: the peer sent none). If it
            returns None or raises ValueError, the connection is closed.
        unheard: responses of exactly this class are not passed to ``on_response``.
        memory: the budget that all requests of the broker share.
        between_brokers: only brokers connect, and may use the reserve.
        foreign_peers: limits warnings about other protocols.
    """

    clock: Timers
    listener_name: str
    dispatch: Dispatch
    security_protocol: str = "PLAINTEXT"
    versions: Mapping[ApiKey, tuple[int, int]] = field(default_factory=lambda: BROKER_VERSIONS)
    max_request_size_bytes: int = 104857600
    handshake: Callable[[], Handshake] | None = None
    principal_of: Callable[[bytes | None], str | None] | None = None
    on_response: ResponseHook | None = None
    unheard: type | None = None
    read_ahead: ReadAhead | None = None
    memory: MemoryPool = UNBOUNDED
    between_brokers: bool = False
    foreign_peers: ForeignPeers = field(default_factory=ForeignPeers)

    @property
    def has_handshake(self) -> bool:
        """True if a peer must authenticate first."""
        return self.handshake is not None or self.principal_of is not None
