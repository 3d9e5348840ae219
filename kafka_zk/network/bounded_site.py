"""An HTTP server for few clients, with one request per connection; large bodies are rejected unread.

Twisted's server parses a form of any size before a resource sees the request (60 MB took 28 s and 1.1 GB), and any web
page can send one to a local port through the user's browser.
"""

from collections.abc import Collection
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger
from twisted.web.http import HTTPChannel
from twisted.web.server import Site

MAX_CONNECTIONS = 100
MAX_HEADERS = 64
_IDLE_S = 30
_SENDING_S = 60
"""After this time, the connection of a client that does not read the end of a response is closed."""
_READS = frozenset((b"GET", b"HEAD"))
_log = Logger()


class _Channel(HTTPChannel):
    """``host``: the peer's address. ``closed`` fires when the connection is closed, after which no response waits."""

    maxHeaders = MAX_HEADERS
    bound_to: "BoundedSite"
    host = ""
    is_answering = False
    _is_refused = False
    _deadline: Any = None

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.closed: Deferred[None] = Deferred()

    @property
    def is_sending(self) -> bool:
        """True if the response is complete, and the client has not read all of it."""
        return self._deadline is not None

    def connectionMade(self) -> None:
        channel: Any = super()
        channel.connectionMade()
        self.bound_to.channels[self] = None

    def connectionLost(self, reason: Any = None) -> None:
        self.bound_to.channels.pop(self, None)
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        channel: Any = super()
        channel.connectionLost(reason)
        if not self.closed.called:
            self.closed.callback(None)

    def requestDone(self, request: Any) -> None:
        """The response is complete, but may still wait in memory for a client that does not read it."""
        channel: Any = super()
        untyped: Any = self
        self._deadline = untyped.callLater(_SENDING_S, self.abort)
        channel.requestDone(request)

    def abort(self) -> None:
        transport: Any = self.transport
        transport.abortConnection()

    def checkPersistence(self, request: Any, version: bytes) -> bool:
        """Return False, because responses to many pipelined requests would otherwise fill the memory."""
        request.responseHeaders.setRawHeaders(b"connection", [b"close"])
        return False

    def allHeadersReceived(self) -> None:
        site = self.bound_to
        if self._command not in site.methods:
            self._refuse(b"405 Method Not Allowed", b"allow: %s\r\n" % b", ".join(sorted(site.methods)))
        elif self.length is None or self.length > (site.max_body_bytes if self._command == b"POST" else 0):
            self._refuse(b"413 Content Too Large")  # None: a chunked body of unknown size
        else:
            channel: Any = super()
            channel.allHeadersReceived()

    def _refuse(self, status: bytes, header: bytes = b"") -> None:
        transport: Any = self.transport
        peer = transport.getPeer()
        host = getattr(peer, "host", peer)
        _log.warn("HTTP request from {host} refused: {status}", host=str(host), status=status.decode())
        transport.write(b"HTTP/1.1 %s\r\n%sconnection: close\r\ncontent-length: 0\r\n\r\n" % (status, header))
        self._is_refused = True
        self.length = None  # otherwise the request counts as complete
        transport.loseConnection()

    def rawDataReceived(self, data: bytes) -> None:
        if not self._is_refused:
            channel: Any = super()
            channel.rawDataReceived(data)

    def allContentReceived(self) -> None:
        self.is_answering = True
        channel: Any = super()
        channel.allContentReceived()


class BoundedSite(Site):
    """Serves ``resource`` to GET and HEAD.

    ``posts``: serve POST, too, with a body of up to ``max_body_bytes``. ``max_connections``, and of these
    ``max_connections_of_host`` from one address (None: all): see ``buildProtocol``.
    """

    noisy = False
    protocol: Any = _Channel

    def __init__(
        self,
        resource: Any,
        reactor: Any,
        *,
        posts: bool = False,
        max_body_bytes: int = 0,
        max_connections: int = MAX_CONNECTIONS,
        max_connections_of_host: int | None = None,
    ) -> None:
        super().__init__(resource, reactor=reactor, timeout=_IDLE_S)  # type: ignore[no-untyped-call]
        self.methods: Collection[bytes] = _READS | {b"POST"} if posts else _READS
        self.max_body_bytes = max_body_bytes
        self._max_connections = max_connections
        self._max_connections_of_host = max_connections_of_host or max_connections
        self.channels: dict[_Channel, None] = {}  # oldest first

    def log(self, request: Any) -> None:
        """Write no access log."""

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """At ``max_connections``, close the oldest idle connection. If none is idle, refuse the new one (None).

        At ``max_connections_of_host``, close one of the same address: the oldest idle one, else the oldest whose
        response was not read.
        """
        host = str(getattr(addr, "host", ""))
        same = [channel for channel in self.channels if channel.host == host]
        if len(same) >= self._max_connections_of_host and not self._close_one(same, closes_sending=True):
            return None
        if len(self.channels) >= self._max_connections and not self._close_one(self.channels, closes_sending=False):
            return None
        channel: Any = super().buildProtocol(addr)  # type: ignore[no-untyped-call]
        channel.bound_to = self
        channel.host = host
        return channel

    def _close_one(self, channels: Collection[_Channel], *, closes_sending: bool) -> bool:
        """Close the first idle connection; with ``closes_sending``, else the first one that is sending. Returns False
        if there is none.
        """
        idle = [channel for channel in channels if not channel.is_answering]
        sending = [channel for channel in channels if channel.is_sending] if closes_sending else []
        found = next(iter(idle + sending), None)
        if found is None:
            return False
        self.channels.pop(found)
        found.abort()
        return True
