"""The page for viewers on other machines: they read, and follow the presenter's page.

It is a server of its own, on an address that other machines reach. The server of the presenter's page stays on the
loopback address, so nothing that acts on the cluster listens on the network: here, acts are refused whatever token a
request carries. Viewers have a token of their own, which opens nothing on the presenter's server.

Many viewers cost little more than one. An answer is computed once for all who ask the same until the next news, and
news is sent at most every NEWS_INTERVAL_S. A viewer who reads slowly gets the latest news only; no one waits for them.

One address may take a half of the viewers and of the memory for answers, but not all: a class behind a router that
translates addresses (NAT) has only one.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlencode

from kafka_zk.network.bounded_site import BoundedSite
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.web.answers import Answer, Answers
from kafka_zk.recorder.web.api import BadRequest, Query, RecordingApi
from kafka_zk.recorder.web.news import News
from kafka_zk.recorder.web.presentation import Presentation
from kafka_zk.recorder.web.questions import Question, questions
from kafka_zk.recorder.web.resources import MOST_BODY_BYTES, Code, Resource, Root, answer, header, host_of, query_of
from kafka_zk.recorder.web.waiting import WaitingBytes

NEWS_INTERVAL_S = 0.5
MOST_VIEWERS = 100
MOST_CONNECTIONS = 4 * MOST_VIEWERS
MOST_WAITING_BYTES = 128 << 20
"""Maximum size of the answers that viewers have not read yet."""
MOST_VIEWERS_OF_HOST = MOST_VIEWERS // 2
MOST_CONNECTIONS_OF_HOST = 6 * MOST_VIEWERS_OF_HOST
"""A browser opens at most six connections to a server."""
_WITHOUT_TOKEN = "this link is no longer valid: ask the presenter for the new one"
_TOO_MUCH_WAITS = "too many viewers are waiting for answers: try again in a moment"
_RETRY_AFTER_S = 2
MOST_AT_ONCE = 20
"""Maximum number of queries in one request."""
_READ_ONLY = "viewers can only read: this is the presenter's to do"
_REFUSED = dict.fromkeys((b"api-break", b"api-present", b"api-export", b"api-configs", b"api-messages"), _READ_ONLY)


class ShareAddress(NamedTuple):
    """Where viewers reach this machine. ``host``: the name or address in their link; ``ip``: its IPv4 address."""

    host: str
    ip: str


class ViewersServer:
    """Serves one recording to viewers.

    Args:
        describe: returns the recording's summary.
        address: the page listens on this address only.
        token: required for queries.
        count_changed: called when a viewer has come or gone.
    """

    def __init__(
        self,
        api: RecordingApi,
        describe: Callable[[], Document],
        address: ShareAddress,
        token: str,
        count_changed: Callable[[], None],
    ) -> None:
        self._described = describe
        self._address = address
        self._token = token
        self._presentation = Presentation()
        self._answers = Answers()
        self._news = News(self._describe, MOST_VIEWERS, MOST_VIEWERS_OF_HOST, count_changed)
        self._reactor: Any = None
        self._due: Any = None  # a delayed call
        root: Any = Root(dict.fromkeys(address), token, _REFUSED, _WITHOUT_TOKEN)
        root.putChild(b"api-recording", _Summary(self._describe))
        single = questions(api)
        sender = _Sender(WaitingBytes(MOST_WAITING_BYTES, MOST_WAITING_BYTES // 2))
        for name, question in (single | {"several": partial(_several, single)}).items():
            root.putChild(f"api-{name}".encode(), _Shared(api, name, question, self._answers, sender))
        root.putChild(b"api-news", self._news)
        root.putChild(b"api-code", Code())
        self._root = root

    @property
    def count(self) -> int:
        """The number of viewers' browsers that are connected."""
        return self._news.count

    def site(self, reactor: Any) -> BoundedSite:
        """POST is served only to refuse it."""
        return BoundedSite(
            self._root,
            reactor,
            posts=True,
            max_body_bytes=MOST_BODY_BYTES,
            max_connections=MOST_CONNECTIONS,
            max_connections_of_host=MOST_CONNECTIONS_OF_HOST,
        )

    def listen(self, reactor: Any, port: int) -> str:
        """Returns the viewers' link. Raises: twisted's CannotListenError."""
        self._reactor = reactor
        listening: int = reactor.listenTCP(port, self.site(reactor), interface=self._address.ip).getHost().port
        return f"http://{self._address.host}:{listening}/#token={self._token}"

    def publish(self) -> None:
        """Tell viewers soon that the recording has changed."""
        if self._due is None and self._reactor is not None:
            self._due = self._reactor.callLater(NEWS_INTERVAL_S, self._tell)

    def present(self, told: Any) -> Document:
        """Pass the presenter's state on; returns the number of viewers. Raises: BadPresentation."""
        if self._presentation.present(told):
            self._news.tell()
        return {"viewers": self.count}

    def stop(self) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = self._reactor = None

    def _tell(self) -> None:
        self._due = None
        self._answers.clear()
        self._news.tell()

    def _describe(self) -> Document:
        presented = self._presentation.document()
        acts = {"can_break": False, "can_ask": False, "can_act": False, "shows_values": False}
        return {**self._described(), **acts, "shared": "viewer", "presented": presented}


class _Summary(Resource):
    isLeaf = True

    def __init__(self, describe: Callable[[], Document]) -> None:
        super().__init__()
        self._describe = describe

    def render_GET(self, request: Any) -> bytes:
        return answer(request, self._describe())


class _Shared(Resource):
    """A query whose answer is computed once for all viewers who ask it."""

    isLeaf = True

    def __init__(self, api: RecordingApi, name: str, question: Question, answers: Answers, sender: "_Sender") -> None:
        super().__init__()
        self._api = api
        self._name = name
        self._question = question
        self._answers = answers
        self._sender = sender

    def render_GET(self, request: Any) -> bytes:
        query = {name: value for name, value in query_of(request).items() if name != "token"}
        key = f"{self._name}?{urlencode(sorted(query.items()))}"
        return self._sender.send(request, self._answers.of(key, partial(self._asked, query)))

    def _asked(self, query: Query) -> Document:
        with self._api.one_moment():
            return self._question(query)


class _Sender:
    """Sends answers, unless too many of them have not been read yet."""

    def __init__(self, waiting: WaitingBytes) -> None:
        self._waiting = waiting

    def send(self, request: Any, found: Answer) -> bytes:
        """Set the response's status and type; returns its body."""
        is_packed = "gzip" in header(request, "accept-encoding")
        host, size_bytes = host_of(request), len(found.packed) if is_packed else found.size_bytes
        if not self._waiting.add(host, size_bytes):
            request.setHeader("Retry-After", str(_RETRY_AFTER_S))
            return answer(request, {"error": _TOO_MUCH_WAITS}, 503)
        request.channel.closed.addCallback(lambda _: self._waiting.remove(host, size_bytes))
        request.setResponseCode(found.code)
        request.setHeader("Content-Type", "application/json")
        if not is_packed:
            return gzip.decompress(found.packed)
        request.setHeader("Content-Encoding", "gzip")
        return found.packed


def _several(known: Mapping[str, Question], query: Query) -> Document:
    """The answers to several queries about one moment: ``asked`` is a list of names and values, in JSON. An answer that
    is refused has its reason as ``error``. Raises: BadRequest.
    """
    try:
        asked = json.loads(query.get("asked", ""))
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, list) or len(asked) > MOST_AT_ONCE or not all(map(_is_query, asked)):
        raise BadRequest(f"asked must be a list of at most {MOST_AT_ONCE} queries")
    return {"answers": [_answer_to(known, *each) for each in asked]}


def _is_query(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2:
        return False
    name, values = value
    return _is_text(name) and isinstance(values, dict) and all(map(_is_text, values.values()))


def _is_text(value: Any) -> bool:
    """False also for half a character (a lone surrogate), which JSON can contain, but a query to SQLite cannot."""
    return isinstance(value, str) and not any("\ud800" <= each <= "\udfff" for each in value)


def _answer_to(known: Mapping[str, Question], name: str, values: Query) -> Document:
    if name not in known:
        return {"error": f"there is no query {name[:100]}"}
    try:
        return {"answer": known[name](values)}
    except BadRequest as error:
        return {"error": str(error)}
