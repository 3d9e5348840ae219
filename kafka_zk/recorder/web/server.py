"""The page's web server: static files, queries to the recording, server-sent events, and faults for brokers.

It listens on the loopback address. A request must name this address as its host, so that a site cannot reach the server
under its own name (DNS rebinding). Other sites may link to the page but not query it. A query must carry the read token
of the printed URL, which other sites and other users of the machine do not know. A change must carry the break token,
which is printed separately.
"""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import coiterate
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.protocols.basic import FileSender
from twisted.web.server import NOT_DONE_YET

from kafka_zk.network.bounded_site import BoundedSite
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.shared_file import pack
from kafka_zk.recorder.web.api import BadRequest, RecordingApi
from kafka_zk.recorder.web.daemon_thread import defer_to_daemon_thread
from kafka_zk.recorder.web.news import News
from kafka_zk.recorder.web.operations import Ask, Asked
from kafka_zk.recorder.web.presentation import BadPresentation
from kafka_zk.recorder.web.questions import Question, questions
from kafka_zk.recorder.web.resources import (
    MOST_BODY_BYTES,
    Code,
    Resource,
    Root,
    answer,
    finish,
    header,
    is_same,
    query_of,
)

LOOPBACK = "127.0.0.1"
TOKEN_HEADER = "x-kafka-zk-token"
MOST_WAITING = 4
"""Maximum number of questions of one kind to the live cluster that wait for answers."""
NOTHING_ASKED = Asked()

Break = Callable[[Document], Document]
"""Runs a command (a document with an ``action``) on a thread and returns the new state. Raises an exception whose
message gives the reason for a refusal.
"""

Present = Callable[[Any], Document]
"""Passes on what the presenter's page shows, to the viewers; returns their number. Raises: BadPresentation."""

_log = Logger()


class WebServer:
    """Serves one recording.

    Args:
        describe: returns the recording's summary for the page.
        break_broker: None if the page may only read.
        reading_token, break_token: required for queries and for commands, which change the cluster or present the page.
        present: None if the page is not shared.
        asked: questions to the live cluster; each runs on a thread.
    """

    def __init__(
        self,
        api: RecordingApi,
        describe: Callable[[], Document],
        break_broker: Break | None,
        reading_token: str,
        break_token: str,
        present: Present | None = None,
        asked: Asked = NOTHING_ASKED,
    ) -> None:
        self._news = News(describe)
        root: Any = Root((LOOPBACK, "localhost"), reading_token, {})
        for name, question in ({"recording": lambda query: describe()} | questions(api)).items():
            root.putChild(f"api-{name}".encode(), _Question(api, question))
        for name, ask in asked.questions.items():
            root.putChild(f"api-{name}".encode(), _LiveQuestion(ask, None))
        for name, ask in asked.private.items():
            root.putChild(f"api-{name}".encode(), _LiveQuestion(ask, asked.values_token))
        root.putChild(b"api-news", self._news)
        root.putChild(b"api-export", _Export(api))
        root.putChild(b"api-code", Code())
        root.putChild(b"api-break", _Break(break_broker, break_token))
        root.putChild(b"api-present", _Present(present, break_token))
        self._root = root

    def site(self, reactor: Any) -> BoundedSite:
        """Only commands have a body."""
        return BoundedSite(self._root, reactor, posts=True, max_body_bytes=MOST_BODY_BYTES)

    def listen(self, reactor: Any, port: int) -> int:
        """Returns the port. Raises: twisted's CannotListenError."""
        listening: int = reactor.listenTCP(port, self.site(reactor), interface=LOOPBACK).getHost().port
        return listening

    def publish(self) -> None:
        """Send the summary to the browsers, because there are new entries or there is a problem."""
        self._news.tell()


class _Question(Resource):
    isLeaf = True

    def __init__(self, api: RecordingApi, question: Question) -> None:
        super().__init__()
        self._api = api
        self._question = question

    def render_GET(self, request: Any) -> bytes:
        try:
            with self._api.one_moment():
                return answer(request, self._question(query_of(request)))
        except BadRequest as error:
            return answer(request, {"error": str(error)}, 400)


class _LiveQuestion(Resource):
    """Asks the cluster itself, on a thread. Its refusals and errors are the brokers' and ZooKeeper's.

    ``token``: required in a header, because an address can be shared by mistake; None if the read token suffices.
    """

    isLeaf = True

    def __init__(self, ask: Ask, token: str | None) -> None:
        super().__init__()
        self._ask = ask
        self._token = token
        self._waiting_count = 0

    def render_GET(self, request: Any) -> Any:
        if self._token is not None and not is_same(header(request, TOKEN_HEADER), self._token):
            told = "the token is missing or wrong: open the address for reading records, which was printed separately"
            return answer(request, {"error": told}, 403)
        if self._waiting_count >= MOST_WAITING:
            return answer(request, {"error": "the cluster has not answered the earlier questions yet"}, 503)
        self._waiting_count += 1
        asked = defer_to_daemon_thread(self._ask, query_of(request))
        return _answer_later(request, asked.addBoth(self._answered))

    def _answered(self, outcome: Any) -> Any:
        self._waiting_count -= 1
        return outcome


class _Export(Resource):
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
                await coiterate(self._api.export(query_of(request), database))
                await deferToThread(pack, database, packed)
            except BadRequest as error:
                finish(request, {"error": str(error)}, 400)
            except (OSError, sqlite3.Error) as error:
                finish(request, {"error": f"the recording cannot be saved: {error}"}, 507)
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


class _Break(Resource):
    isLeaf = True

    def __init__(self, break_broker: Break | None, token: str) -> None:
        super().__init__()
        self._break = break_broker
        self._token = token

    def render_POST(self, request: Any) -> Any:
        if not is_same(header(request, TOKEN_HEADER), self._token):
            told = (
                "the token is missing or wrong: open the address for breaking the cluster, which was printed separately"
            )
            return answer(request, {"error": told}, 403)
        if self._break is None:
            return answer(request, {"error": "this page only reads: it cannot change the cluster"}, 409)
        wanted = _order(request.content.read(MOST_BODY_BYTES))
        if wanted is None:
            return answer(request, {"error": "expected a JSON object with an action"}, 400)
        return _answer_later(request, defer_to_daemon_thread(self._break, wanted))


class _Present(Resource):
    isLeaf = True

    def __init__(self, present: Present | None, token: str) -> None:
        super().__init__()
        self._present = present
        self._token = token

    def render_POST(self, request: Any) -> bytes:
        if not is_same(header(request, TOKEN_HEADER), self._token):
            return answer(request, {"error": "the token is missing or wrong: open the presenter's link"}, 403)
        if self._present is None:
            return answer(request, {"error": "the page is not shared: start it with --share"}, 409)
        try:
            return answer(request, self._present(json.loads(request.content.read(MOST_BODY_BYTES))))
        except BadPresentation as error:
            return answer(request, {"error": str(error)}, 400)
        except (ValueError, RecursionError):
            return answer(request, {"error": "expected a JSON object"}, 400)


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


def _answer_later(request: Any, done: Any) -> Any:
    """Answer with the result of ``done``, or with the reason of its failure."""
    done.addCallbacks(lambda state: (state, 200), lambda failure: ({"error": failure.getErrorMessage()}, 409))
    done.addCallback(lambda outcome: finish(request, *outcome))
    done.addErrback(lambda failure: _log.failure("a response could not be sent", failure=failure))
    return NOT_DONE_YET
