"""The page's web server: static files, queries to the recording, server-sent events, and faults for brokers.

It listens on the loopback address. A request must name this address as its host, so that a site cannot reach the server
under its own name (DNS rebinding). Other sites may link to the page but not query it. A query must carry the read token
of the printed URL, which other sites and other users of the machine do not know. A change must carry the break token,
which is printed separately.
"""

import hmac
import json
import sqlite3
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import coiterate
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.protocols.basic import FileSender
from twisted.web import resource
from twisted.web.server import NOT_DONE_YET

from kafka_zk.network.bounded_site import BoundedSite
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.shared_file import pack
from kafka_zk.recorder.web.api import BadRequest, Query, RecordingApi
from kafka_zk.recorder.web.explanations import code
from kafka_zk.recorder.web.strategies import strategies

LOOPBACK = "127.0.0.1"
TOKEN_HEADER = "x-kafka-zk-token"
MOST_LISTENERS = 50
_MOST_BODY_BYTES = 10_000
_WITHOUT_READING_TOKEN = (b"api-code", b"api-break")
"""Paths that need no read token: public code, and commands, which carry their own token."""
_ELSEWHERE = ("cross-site", "same-site")
"""``Sec-Fetch-Site`` of requests from pages of other sites or ports."""
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Break = Callable[[Document], Document]
"""Runs a command (a document with an ``action``) on a thread and returns the new state. Raises an exception whose
message gives the reason for a refusal.
"""

_log = Logger()


class WebServer:
    """Serves one recording.

    Args:
        describe: returns the recording's summary for the page.
        break_broker: None if the cluster cannot be broken from the page.
        reading_token, break_token: required for queries and commands.
    """

    def __init__(
        self,
        api: RecordingApi,
        describe: Callable[[], Document],
        break_broker: Break | None,
        reading_token: str,
        break_token: str,
    ) -> None:
        self._news = _News(describe)
        root: Any = _Checked(reading_token)
        for name, content in _static_files().items():
            root.putChild(name.encode(), content)
        root.putChild(b"", _static_files()["index.html"])
        for name, question in (
            ("recording", lambda query: describe()), ("state", api.state), ("tree", api.tree), ("at", api.at),
            ("entries", api.entries), ("entry", api.entry), ("spans", api.spans), ("step", api.step),
            ("episodes", api.episodes), ("play", api.play), ("znode", api.znode), ("samples", api.samples),
            ("health", api.health), ("lesson", api.lesson), ("question", api.question), ("records", api.records),
            ("strategies", lambda query: strategies()),
        ):  # fmt: skip
            root.putChild(f"api-{name}".encode(), _Question(api, question))
        root.putChild(b"api-news", self._news)
        root.putChild(b"api-export", _Export(api))
        root.putChild(b"api-code", _Code())
        root.putChild(b"api-break", _Break(break_broker, break_token))
        self._root = root

    def site(self, reactor: Any) -> BoundedSite:
        """Only commands to break brokers have a body."""
        return BoundedSite(self._root, reactor, posts=True, max_body_bytes=_MOST_BODY_BYTES)

    def listen(self, reactor: Any, port: int) -> int:
        """Returns the port. Raises: twisted's CannotListenError."""
        listening: int = reactor.listenTCP(port, self.site(reactor), interface=LOOPBACK).getHost().port
        return listening

    def publish(self) -> None:
        """Send the summary to the browsers, because there are new entries or there is a problem."""
        self._news.tell()


class _Resource(resource.Resource):
    """The base of all resources: Twisted's own class has no type annotations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]


class _Checked(_Resource):
    def __init__(self, reading_token: str) -> None:
        super().__init__()
        self._reading_token = reading_token

    def getChild(self, path: bytes, request: Any) -> Any:
        return _Refusal(404, "there is no such page")

    def getChildWithDefault(self, path: bytes, request: Any) -> Any:
        for name, value in _HEADERS.items():
            request.setHeader(name, value)
        told = _header(request, "host")
        host = told.rpartition(":")[0] or told
        if host not in (LOOPBACK, "localhost"):
            return _Refusal(403, f"this page is at http://{LOOPBACK}, not at {host[:100]}")
        if path.startswith(b"api-") and _header(request, "sec-fetch-site") in _ELSEWHERE:
            return _Refusal(403, "only the page itself may send this request")
        if request.postpath:
            return _Refusal(404, "there is no such page")
        asks = path.startswith(b"api-") and path not in _WITHOUT_READING_TOKEN
        if asks and not _is_same(_query(request).get("token", ""), self._reading_token):
            return _Refusal(403, "the token is missing or wrong: open the URL that was printed")
        return super().getChildWithDefault(path, request)  # type: ignore[no-untyped-call]


class _StaticFile(_Resource):
    """Replaces ``twisted.web.static.Data``, whose import raises a DeprecationWarning."""

    def __init__(self, content: bytes, content_type: str) -> None:
        super().__init__()
        self._content, self._content_type = content, content_type

    def render_GET(self, request: Any) -> bytes:
        request.setHeader("content-type", self._content_type)
        return self._content


class _Refusal(_Resource):
    isLeaf = True

    def __init__(self, code: int, why: str) -> None:
        super().__init__()
        self._code = code
        self._why = why

    def render(self, request: Any) -> bytes:
        return _answer(request, {"error": self._why}, self._code)


class _Question(_Resource):
    isLeaf = True

    def __init__(self, api: RecordingApi, answer: Callable[[Query], Document]) -> None:
        super().__init__()
        self._api = api
        self._answer = answer

    def render_GET(self, request: Any) -> bytes:
        try:
            with self._api.one_moment():
                return _answer(request, self._answer(_query(request)))
        except BadRequest as error:
            return _answer(request, {"error": str(error)}, 400)


class _Export(_Resource):
    """Serves an interval of the recording as a file. The reactor reads it in small parts, and a thread packs it."""

    isLeaf = True

    def __init__(self, api: RecordingApi) -> None:
        super().__init__()
        self._api = api

    def render_GET(self, request: Any) -> Any:
        sent = Deferred.fromCoroutine(self._send(request))
        sent.addErrback(lambda failure: _log.failure("a recording could not be sent", failure=failure))
        return NOT_DONE_YET

    async def _send(self, request: Any) -> None:
        with TemporaryDirectory(prefix="kafka-zk-export-") as folder:
            database, packed = Path(folder) / "recording.sqlite", Path(folder) / "recording.kzr"
            try:
                await coiterate(self._api.export(_query(request), database))
                await deferToThread(pack, database, packed)
            except BadRequest as error:
                _finish(request, {"error": str(error)}, 400)
            except (OSError, sqlite3.Error) as error:
                _finish(request, {"error": f"the recording cannot be saved: {error}"}, 507)
            else:
                await _send_file(request, packed)


async def _send_file(request: Any, path: Path) -> None:
    if request._disconnected:
        return
    request.setHeader("Content-Type", "application/octet-stream")
    request.setHeader("Content-Disposition", f'attachment; filename="{path.name}"')
    request.setHeader("Content-Length", str(path.stat().st_size))
    with path.open("rb") as file:
        try:
            await FileSender().beginFileTransfer(file, request)
        except Exception:  # the type that FileSender raises if the browser disconnects
            return
    request.finish()


class _Code(_Resource):
    """Serves the kafka-zk modules that explanations name, as text."""

    isLeaf = True

    def render_GET(self, request: Any) -> bytes:
        found = code(_query(request).get("file", ""))
        if found is None:
            return _answer(request, {"error": "no explanation names that file"}, 404)
        request.setHeader("Content-Type", "text/plain; charset=utf-8")
        return found


class _Break(_Resource):
    isLeaf = True

    def __init__(self, break_broker: Break | None, token: str) -> None:
        super().__init__()
        self._break = break_broker
        self._token = token

    def render_POST(self, request: Any) -> Any:
        if not _is_same(_header(request, TOKEN_HEADER), self._token):
            told = (
                "the token is missing or wrong: open the address for breaking the cluster, which was printed separately"
            )
            return _answer(request, {"error": told}, 403)
        if self._break is None:
            return _answer(request, {"error": "only a kafka-zk up cluster can be broken from the page"}, 409)
        wanted = _order(request.content.read(_MOST_BODY_BYTES))
        if wanted is None:
            return _answer(request, {"error": "expected a JSON object with an action"}, 400)
        done: Any = deferToThread(self._break, wanted)
        done.addCallbacks(
            lambda state: (state, 200), lambda failure: ({"error": failure.getErrorMessage()}, 409)
        )  # fmt: skip
        done.addCallback(lambda outcome: _finish(request, *outcome))
        done.addErrback(lambda failure: _log.failure("a response could not be sent", failure=failure))
        return NOT_DONE_YET


def _order(body: bytes) -> Document | None:
    """Parse a command: an action with strings, integers and lists of strings as arguments. None if it is invalid."""
    try:
        wanted = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(wanted, dict) or not isinstance(wanted.get("action"), str):
        return None
    return wanted if all(map(_is_plain, wanted.values())) else None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, str) or type(value) is int


class _News(_Resource):
    """Server-sent events with the recording's summary; the page queries the rest."""

    isLeaf = True

    def __init__(self, describe: Callable[[], Document]) -> None:
        super().__init__()
        self._describe = describe
        self._listeners: list[_Listener] = []

    def render_GET(self, request: Any) -> Any:
        if len(self._listeners) >= MOST_LISTENERS:
            return _answer(request, {"error": f"{MOST_LISTENERS} pages are open already"}, 503)
        request.setHeader("Content-Type", "text/event-stream")
        listener = _Listener(request)
        self._listeners.append(listener)
        request.notifyFinish().addBoth(lambda _: self._listeners.remove(listener))
        request.registerProducer(listener, True)
        listener.tell(self._line())
        return NOT_DONE_YET

    def tell(self) -> None:
        if self._listeners:
            line = self._line()
            for listener in list(self._listeners):
                listener.tell(line)

    def _line(self) -> bytes:
        return f"data: {json.dumps(self._describe())}\n\n".encode()


class _Listener:
    """A browser. If it reads slowly, it gets only the latest news (a push producer)."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._paused = False
        self._waiting: bytes | None = None

    def tell(self, line: bytes) -> None:
        if self._paused:
            self._waiting = line
        else:
            self._request.write(line)

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        self._paused = False
        if self._waiting is not None:
            line, self._waiting = self._waiting, None
            self._request.write(line)

    def stopProducing(self) -> None:
        """Write nothing more; notifyFinish reports the disconnect, too."""
        self._paused = True


def _header(request: Any, name: str) -> str:
    found = request.requestHeaders.getRawHeaders(name.encode())
    return str(found[-1].decode(errors="replace")) if found else ""


def _is_same(told: str, token: str) -> bool:
    return hmac.compare_digest(told.encode(), token.encode())


def _query(request: Any) -> Query:
    return {key.decode(errors="replace"): each[-1].decode(errors="replace") for key, each in request.args.items()}


def _answer(request: Any, document: Document, code: int = 200) -> bytes:
    request.setResponseCode(code)
    request.setHeader("Content-Type", "application/json")
    return json.dumps(document).encode()


def _finish(request: Any, document: Document, code: int) -> None:
    if not request._disconnected:
        request.write(_answer(request, document, code))
        request.finish()


def _static_files() -> dict[str, _StaticFile]:
    found = {}
    for file in resources.files("kafka_zk.recorder.web").joinpath("static").iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in _TYPES:
            found[file.name] = _StaticFile(file.read_bytes(), f"{_TYPES[suffix]}; charset=utf-8")
    return found
