"""What all connections of a listener share."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka_zk.base.clock import Timers
from kafka_zk.network.foreign_peers import ForeignPeers
from kafka_zk.network.in_flight import Response
from kafka_zk.network.memory_pool import UNBOUNDED, MemoryPool
from kafka_zk.network.read_ahead import ReadAhead
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.request import RequestContext, RequestHeader

Dispatch = Callable[[RequestContext, RequestHeader, memoryview], Coroutine[Any, Any, Response]]
"""Answers a request; the memoryview is its body."""

ResponseHook = Callable[[RequestContext, RequestHeader, Response], int]
"""Sees every answer before it is sent and may change the list (throttle time); returns how many ms to mute the peer."""


class Handshake(Protocol):
    """What happens on a connection before its requests count, for example SASL. One object per connection."""

    def request(
        self, context: RequestContext, header: RequestHeader, body: memoryview
    ) -> Coroutine[Any, Any, tuple[Response, RequestContext | None]]:
        """Answer one request; a context beside the answer ends the handshake. Raises ProtocolError to refuse."""


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
