"""An HTTP port costs its process little, whatever requests arrive."""

from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from kafka_zk.network.bounded_site import MAX_CONNECTIONS, BoundedSite

FORM = b"POST / HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: %d\r\n\r\n"


class Page(Resource):
    isLeaf = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.asked = 0

    def render_GET(self, request: Any) -> bytes:
        self.asked += 1
        return b"page"

    def render_POST(self, request: Any) -> bytes:
        return bytes(request.content.read())


class Transport(StringTransport):
    def abortConnection(self) -> None:
        self.aborting = True

    aborting = False

    def __init__(self) -> None:
        StringTransport.__init__(self)

    def value(self) -> bytes:
        return bytes(StringTransport.value(self))


def peer(host: str) -> Any:
    return IPv4Address("TCP", host, 50_000)


def connected(site: BoundedSite, host: str = "192.0.2.1") -> tuple[Any, Transport]:
    connection = site.buildProtocol(peer(host))
    transport = Transport()
    connection.makeConnection(transport)
    return connection, transport


def ask(request: bytes, **options: Any) -> tuple[bytes, Transport, Page]:
    page = Page()
    connection, transport = connected(BoundedSite(page, Clock(), **options))
    connection.dataReceived(request)
    return transport.value(), transport, page


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (FORM % 60_000_000, b"405"),
        (b"PUT / HTTP/1.1\r\n\r\n", b"405"),
        (b"GET / HTTP/1.1\r\ncontent-length: 1\r\n\r\n", b"413"),
        (b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"413"),
    ],
)
def test_a_body_is_refused_before_it_is_read(head: bytes, status: bytes) -> None:
    answered, transport, page = ask(head)
    assert answered.startswith(b"HTTP/1.1 " + status)
    assert transport.disconnecting
    assert not page.asked


def test_what_follows_a_refused_head_is_dropped() -> None:
    page = Page()
    connection, transport = connected(BoundedSite(page, Clock(), posts=True, max_body_bytes=10))
    connection.dataReceived(FORM % 11 + bytes(5))
    answered = transport.value()
    assert answered.startswith(b"HTTP/1.1 413")
    connection.dataReceived(bytes(6) + b"GET / HTTP/1.1\r\n\r\n")
    assert (transport.value(), page.asked) == (answered, 0)


def test_a_small_body_is_taken_where_bodies_are() -> None:
    answered, _, _ = ask(FORM % 4 + b"a=bc", posts=True, max_body_bytes=10)
    assert answered.endswith(b"\r\n\r\na=bc")


def test_a_thousand_requests_in_one_segment_get_one_response() -> None:
    """With more responses, the process would keep all of them for a peer that reads none."""
    answered, transport, page = ask(b"GET / HTTP/1.1\r\n\r\n" * 1000)
    assert (page.asked, answered.count(b"page")) == (1, 1)
    assert transport.disconnecting


def test_many_headers_are_refused() -> None:
    answered, _, page = ask(b"GET / HTTP/1.1\r\n" + b"".join(b"a%d: b\r\n" % n for n in range(200)) + b"\r\n")
    assert answered.startswith(b"HTTP/1.1 400")
    assert not page.asked


def test_connections_that_ask_nothing_make_room() -> None:
    site = BoundedSite(Page(), Clock())
    opened = [connected(site) for _ in range(MAX_CONNECTIONS + 5)]
    assert [transport.aborting for _, transport in opened] == [True] * 5 + [False] * MAX_CONNECTIONS
    connection, transport = opened[-1]
    connection.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
    assert transport.value().endswith(b"page")


def test_responses_that_one_address_does_not_read_make_room_for_its_next_request() -> None:
    """Its oldest is closed, so it can neither take all connections nor shut out others behind the same router."""
    site = BoundedSite(Page(), Clock(), max_connections=6, max_connections_of_host=4)
    opened = []
    for host in ["192.0.2.2"] + ["192.0.2.1"] * 7:
        connection, transport = connected(site, host)
        connection.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
        opened.append(transport)
    assert [transport.aborting for transport in opened] == [False] + [True] * 3 + [False] * 4
    assert connected(site, "192.0.2.3")


def test_a_waiting_response_is_not_closed_for_another_address_or_while_it_is_made() -> None:
    class Waiting(Page):
        def render_GET(self, request: Any) -> int:  # type: ignore[override]
            return NOT_DONE_YET

    site = BoundedSite(Waiting(), Clock(), max_connections=3, max_connections_of_host=2)
    for _ in range(2):
        connection, _ = connected(site)
        connection.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
    assert site.buildProtocol(peer("192.0.2.1")) is None
    assert site.buildProtocol(peer("192.0.2.2")) is not None


def test_a_client_that_does_not_read_its_response_is_disconnected() -> None:
    clock = Clock()
    connection, transport = connected(BoundedSite(Page(), clock))
    connection.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
    assert transport.disconnecting
    clock.advance(59)
    assert not transport.aborting
    clock.advance(1)
    assert transport.aborting


def test_a_client_that_has_read_its_response_leaves_nothing_behind() -> None:
    clock = Clock()
    connection, _ = connected(BoundedSite(Page(), clock))
    connection.dataReceived(b"GET / HTTP/1.1\r\n\r\n")
    connection.connectionLost()
    assert not clock.getDelayedCalls()
