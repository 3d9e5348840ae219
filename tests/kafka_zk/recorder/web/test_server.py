"""The responses to requests that no browser sends, and downloads."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.web.server import NOT_DONE_YET

from kafka_zk.recorder.recording import export, shared_file
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web import server
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.web.operations import Asked
from kafka_zk.recorder.web.presentation import Presentation
from kafka_zk.recorder.web.server import MOST_WAITING, Break, Present, WebServer
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction
from tests.kafka_zk.recorder.web.test_presentation import SHOWN


def answer(request: bytes, present: Present | None = None, *, reads_only: bool = False) -> bytes:
    act: Break | None = None if reads_only else lambda request: {}
    asked = Asked({"configs": lambda query: {}}, {"messages": lambda query: {}}, "values")
    web = WebServer(RecordingApi(Recording()), dict, act, "reading", "secret", present, asked)
    connection = web.site(Clock()).buildProtocol(None)
    transport = StringTransport()
    connection.makeConnection(transport)
    connection.dataReceived(request)
    return bytes(transport.value())


HEAD = b"POST /api-%s HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nX-Kafka-Zk-Token: %s\r\nContent-Length: %d\r\n\r\n"


def post(body: bytes, token: bytes = b"secret", *, reads_only: bool = False) -> bytes:
    return answer(HEAD % (b"break", token, len(body)) + body, reads_only=reads_only)


@pytest.mark.parametrize(
    "question",
    [
        "recording",
        "state",
        "tree",
        "znode",
        "entries",
        "news",
        "export",
        "samples",
        "health",
        "lag",
        "configs",
        "messages",
    ],
)
@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong", "?token=%ff", "?token=secret"])
def test_reading_needs_its_token(question: str, query: str) -> None:
    """The break token does not suffice, because it is never in an address."""
    request = f"GET /api-{question}{query} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
    assert b" 403 " in answer(request.encode())


def test_who_has_the_reading_token_reads_but_changes_nothing() -> None:
    get = b"GET /api-%s?token=reading HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
    assert b" 200 " in answer(get % b"recording")
    assert b" 403 " in post(b'{"action":"kill","broker":0}', token=b"reading")


def presented(body: bytes, token: bytes = b"secret") -> tuple[bytes, Presentation]:
    """The response to a presenter's page, and what viewers then follow."""
    presentation = Presentation()

    def present(told: Any) -> dict[str, Any]:
        presentation.present(told)
        return {"viewers": 3}

    return answer(HEAD % (b"present", token, len(body)) + body, present), presentation


def test_only_the_presenters_token_presents() -> None:
    body = json.dumps(SHOWN).encode()
    answered, presentation = presented(body)
    assert answered.endswith(b'{"viewers": 3}') and presentation.shown == SHOWN
    for token in (b"", b"reading", b"\xff"):
        answered, presentation = presented(body, token)
        assert b" 403 " in answered and presentation.shown is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b"[" * 9_999, b'{"seq": 1e999}'])
def test_what_no_page_shows_is_refused(body: bytes) -> None:
    answered, presentation = presented(body)
    assert b" 400 " in answered and presentation.shown is None


def test_a_page_that_is_not_shared_is_presented_to_no_one() -> None:
    assert b" 409 " in answer(HEAD % (b"present", b"secret", 2) + b"{}")


def test_a_page_that_only_reads_refuses_every_act() -> None:
    """Even from someone who has guessed the token that was never printed."""
    for action in (b"kill", b"plan-reset", b"reset-offsets", b"set-config"):
        refused = post(b'{"action":"%s"}' % action, reads_only=True)
        assert b" 409 " in refused and b"this page only reads" in refused


@pytest.mark.parametrize("token", [b"", b"reading", b"secret", b"wrong", b"\xff"])
def test_records_need_a_token_of_their_own(token: bytes) -> None:
    """Neither the token for reading nor the one for changes suffices, nor does the right one in the address."""
    get = b"GET /api-messages?token=reading&values=values HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX-Kafka-Zk-Token: %s\r\n\r\n"
    refused = answer(get % token)
    assert b" 403 " in refused and b"open the address for reading records" in refused
    assert b" 403 " in answer(get.replace(b"token=reading&", b"") % b"values"), "the token for reading is needed, too"


def test_too_many_questions_to_a_silent_cluster_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Deferred[Any]] = []

    def later(ask: Any, query: Any) -> "Deferred[Any]":
        waiting.append(Deferred())
        return waiting[-1]

    monkeypatch.setattr(server, "defer_to_daemon_thread", later)
    question = server._LiveQuestion(lambda query: {}, None)
    for _ in range(MOST_WAITING):
        assert question.render_GET(Download()) == NOT_DONE_YET
    refused = Download()
    assert b"has not answered" in question.render_GET(refused) and refused.code == 503
    waiting[0].errback(ValueError("no broker is registered in this ZooKeeper"))
    assert question.render_GET(Download()) == NOT_DONE_YET


def test_a_host_that_is_no_text_is_refused() -> None:
    assert b" 403 " in answer(b"GET /api-recording HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n")


def test_a_token_that_is_no_text_is_wrong() -> None:
    assert b" 403 " in post(b'{"action":"kill","broker":0}', token=b"\xff")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"action":"kill","broker":1e999}',
        b'{"action":1,"broker":{}}',
        b"[" * 9_999,
        b'{"action":"kill","broker":true}',
        b'{"action":"cut","broker":1,"from":[{}]}',
    ],
)
def test_what_is_no_order_is_refused(body: bytes) -> None:
    assert b" 400 " in post(body)


@pytest.mark.parametrize("path", [b"/../../etc/passwd", b"/%2e%2e/server.py", b"/index.html/x", b"/api-break/x"])
def test_only_what_is_there_is_given(path: bytes) -> None:
    assert b" 404 " in answer(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)


@pytest.mark.parametrize("site", [b"cross-site", b"same-site"])
def test_another_site_may_link_to_the_page_but_not_ask_it(site: bytes) -> None:
    """A page of another site could not read the responses, but could keep this server busy."""
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


class Download:
    """A browser that accepts a file at any speed."""

    _disconnected = False

    def __init__(self, **query: str) -> None:
        self.args = {name.encode(): [value.encode()] for name, value in query.items()}
        self.code, self.content, self.is_finished = 200, b"", False
        self._producer: Any = None

    def setHeader(self, name: str, value: str) -> None: ...

    def setResponseCode(self, code: int) -> None:
        self.code = code

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._producer = producer
        while self._producer is not None:
            self._producer.resumeProducing()

    def unregisterProducer(self) -> None:
        self._producer = None

    def write(self, content: bytes) -> None:
        self.content += content

    def finish(self) -> None:
        self.is_finished = True


def test_a_download_does_not_hold_up_the_reactor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server reads the recording in small parts between other work, and packs it in a thread."""
    recording = Recording()
    created = [Transaction(zxid, zxid, 0, (Created(f"/{zxid}", b"", False),)) for zxid in range(1, 100)]
    recording.add([], created)
    parts: list[Iterator[None]] = []
    turn: Deferred[None] = Deferred()
    on_threads: list[Any] = []

    def later(each: Iterator[None]) -> Deferred[None]:
        parts.append(each)
        return turn

    def on_a_thread(work: Any, *arguments: Any) -> Any:
        on_threads.append(work)
        return maybeDeferred(work, *arguments)

    monkeypatch.setattr(export, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(server, "coiterate", later)
    monkeypatch.setattr(server, "deferToThread", on_a_thread)
    request = Download(from_ms="1", to_ms="99")
    assert server._Export(RecordingApi(recording)).render_GET(request) == NOT_DONE_YET
    recording.add([], [Transaction(100, 100, 0, (Created("/100", b"", False),))])
    assert len(list(parts[0])) >= 10 and not request.content
    turn.callback(None)
    assert on_threads == [shared_file.pack] and request.is_finished
    (tmp_path / "recording.kzr").write_bytes(request.content)
    saved = shared_file.open_shared_file(tmp_path / "recording.kzr")
    assert saved.entries.count == 99 and len(saved.znodes.after(99).znodes) == 99


@pytest.mark.parametrize(("query", "code"), [({}, 400), ({"from_ms": "500", "to_ms": "900"}, 400)])
def test_a_download_of_nothing_is_refused(query: dict[str, str], code: int) -> None:
    request = Download(**query)
    server._Export(RecordingApi(Recording())).render_GET(request)
    assert (request.code, request.is_finished) == (code, True)


def test_a_download_whose_beginning_is_dropped_meanwhile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording()
    recording.add([], [Transaction(zxid, zxid, 0, (Created(f"/{zxid}", b"", False),)) for zxid in range(1, 100)])
    monkeypatch.setattr(export, "ROWS_AT_ONCE", 10)

    def meanwhile(parts: Iterator[None]) -> Any:
        next(parts)
        recording._forget_oldest()
        return maybeDeferred(list, parts)

    monkeypatch.setattr(server, "coiterate", meanwhile)
    request = Download(from_ms="1", to_ms="99")
    server._Export(RecordingApi(recording)).render_GET(request)
    assert request.code == 507 and b"was dropped meanwhile" in request.content
