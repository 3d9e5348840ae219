"""What browsers that read slowly cost, and what requests that no browser sends are answered."""

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.server import WebServer, _Listener


class Request:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)


def test_a_slow_browser_gets_the_latest_news_only() -> None:
    request = Request()
    listener = _Listener(request)
    listener.tell(b"1")
    listener.pauseProducing()
    for number in range(2, 1_000):
        listener.tell(b"%d" % number)
    listener.resumeProducing()
    listener.tell(b"1000")
    assert request.written == [b"1", b"999", b"1000"]


def answer(request: bytes) -> bytes:
    server = WebServer(RecordingApi(Recording()), dict, lambda request: {}, "reading", "secret")
    connection = server.site(Clock()).buildProtocol(None)
    transport = StringTransport()
    connection.makeConnection(transport)
    connection.dataReceived(request)
    return bytes(transport.value())


def post(body: bytes, token: bytes = b"secret") -> bytes:
    head = b"POST /api-break HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-Kafka-Zk-Token: %s\r\nContent-Length: %d\r\n\r\n"
    return answer(head % (token, len(body)) + body)


@pytest.mark.parametrize(
    "question", ["recording", "state", "tree", "znode", "entries", "news", "export", "samples", "health"]
)
@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%ff", "?token=secret"])
def test_reading_needs_its_token(question: str, query: str) -> None:
    """The break token is none: it is never in an address."""
    request = f"GET /api-{question}{query} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
    assert b" 403 " in answer(request.encode())


def test_who_has_the_reading_token_reads_but_changes_nothing() -> None:
    get = b"GET /api-%s?token=reading HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
    assert b" 200 " in answer(get % b"recording")
    assert b" 403 " in post(b'{"action":"kill","broker":0}', token=b"reading")


def test_a_host_that_is_no_text_is_refused() -> None:
    assert b" 403 " in answer(b"GET /api-recording HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n")


def test_a_token_that_is_no_text_is_wrong() -> None:
    assert b" 403 " in post(b'{"action":"kill","broker":0}', token=b"\xff")


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"\xff", b'{"action":"kill","broker":1e999}', b'{"action":1,"broker":{}}', b"[" * 9_999,
     b'{"action":"kill","broker":true}', b'{"action":"cut","broker":1,"from":[{}]}'],
)
def test_what_is_no_order_is_refused(body: bytes) -> None:
    assert b" 400 " in post(body)


@pytest.mark.parametrize("path", [b"/../../etc/passwd", b"/%2e%2e/server.py", b"/index.html/x", b"/api-break/x"])
def test_only_what_is_there_is_given(path: bytes) -> None:
    assert b" 404 " in answer(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
def test_another_site_may_link_to_the_page_but_not_ask_it(site: bytes) -> None:
    """A page elsewhere could not read the answer, but keep this one busy."""
    head = b" HTTP/1.1\r\nHost: 127.0.0.1:1\r\nSec-Fetch-Site: %s\r\n\r\n" % site
    assert b" 403 " in answer(b"GET /api-recording" + head)
    assert b" 403 " in answer(b"GET /api-news" + head)
    assert b" 200 " in answer(b"GET /" + head)
    own = b"GET /api-recording?token=reading HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n\r\n"
    assert b" 200 " in answer(own)


def test_the_code_of_an_event_is_text() -> None:
    given = answer(b"GET /api-code?file=kafka_zk/broker/controller/active.py HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"Content-Type: text/plain" in given and b"class " in given
    assert b" 404 " in answer(b"GET /api-code?file=kafka_zk/recorder/web/server.py HTTP/1.1\r\nHost: localhost\r\n\r\n")
