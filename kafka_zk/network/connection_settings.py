"""What all connections of a listener share."""

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
"""The principal of a peer that has not said who it is."""

MOST_BYTES_BEFORE_LOGIN = 16 * 1024
"""Maximum frame size of a peer that may be anybody: all connections wait while one message of a login is read, and no
mechanism of ours needs more. Kafka's ``sasl.server.max.receive.size``, which is not read, is 512 KB."""

Dispatch = Callable[[RequestContext, RequestHeader, memoryview], Coroutine[Any, Any, Response]]
"""Answers a request; the memoryview is its body."""

ResponseHook = Callable[[RequestContext, RequestHeader, Response], int]
"""Sees every answer before it is sent and may change the list (throttle time); returns how many ms to mute the peer."""


class HandshakeStep(NamedTuple):
    """The answer to one request of a handshake. ``context``: the handshake is over, and this is the context of all
    requests to come. ``is_refused``: the connection ends after the answer. ``lifetime_ms``: after this time only the
    handshake answers again; None for never."""

    response: Response
    context: RequestContext | None = None
    is_refused: bool = False
    lifetime_ms: int | None = None


class Handshake(Protocol):
    """What happens on a connection before its requests count, for example SASL, and when that is over after some time.
    One object per connection.

    Attributes:
        takes_bare_frames: whether the next frame is no request (SaslHandshake version 0).
        max_frame_size_bytes: of the frames before the handshake is over.
    """

    takes_bare_frames: bool
    max_frame_size_bytes: int

    def request(
        self, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, HandshakeStep]:
        """Answer one request. Raises ProtocolError to end the connection without an answer."""

    def begins_again(self, header: RequestHeader) -> bool:
        """Whether this request, which came within the ``lifetime_ms`` of the handshake before, begins another one."""

    def bare_frame(self, context: RequestContext, frame: memoryview) -> Coroutine[Any, Any, HandshakeStep]:
        """Answer one frame that is no request. Raises ProtocolError."""


class AwaitsCertificate:
    """Over TLS a connection has no handshake beside that of TLS, after which nothing asks this one any more. It refuses
    all requests, so that none is answered for a peer whose certificate has not been seen."""

    takes_bare_frames = False
    max_frame_size_bytes = MOST_BYTES_BEFORE_LOGIN

    async def request(self, context: RequestContext, header: RequestHeader, body: memoryview) -> HandshakeStep:
        raise ProtocolError("a request before the certificate is known")

    def begins_again(self, header: RequestHeader) -> bool:
        return False

    async def bare_frame(self, context: RequestContext, frame: memoryview) -> HandshakeStep:
        raise ProtocolError("a frame before the certificate is known")


@dataclass(slots=True)
class ConnectionSettings:
    """See the module's docstring.

    Args:
        clock: the reactor, as IReactorTime.
        dispatch: answers a request, errors included. An exception is logged with its traceback and ends the connection.
        versions: API key to lowest and highest version offered. Any other version ends the connection, except one of
            ApiVersions.
        max_request_size_bytes: socket.request.max.bytes.
        handshake: makes the handshake of a new connection; None for none.
        principal_of: over TLS without SASL, who the owner of a certificate is (None: the peer has none). None and
            ValueError refuse the connection; no request is answered before. None if a certificate says nothing.
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
    handshake: Callable[[], Handshake] | None = None
    principal_of: Callable[[bytes | None], str | None] | None = None
    on_response: ResponseHook | None = None
    read_ahead: ReadAhead | None = None
    memory: MemoryPool = UNBOUNDED
    between_brokers: bool = False
    foreign_peers: ForeignPeers = field(default_factory=ForeignPeers)

    @property
    def has_handshake(self) -> bool:
        """Whether a peer has to say who it is before its requests are answered."""
        return self.handshake is not None or self.principal_of is not None
