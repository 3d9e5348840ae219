"""What the page's web servers have in common: static files, answers as JSON, refusals, and who may send a request."""

import hmac
import json
from collections.abc import Collection, Mapping
from importlib import resources
from typing import Any

from twisted.web import resource

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.web.api import Query
from kafka_zk.recorder.web.explanations import code

MOST_BODY_BYTES = 100_000
WITHOUT_READING_TOKEN = (b"api-code", b"api-break", b"api-present")
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


class Resource(resource.Resource):
    """The base of all resources: Twisted's own class has no type annotations."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]


class Root(Resource):
    """The page's files, and the resources whose names begin with ``api-``, which need a token.

    Args:
        hosts: the names and addresses by which browsers reach the server; the first is named in refusals.
        reading_token: required for queries.
        refused: paths that are refused whatever the token, with the reason.
        without_token: tells a reader without the token what to do.
    """

    def __init__(
        self,
        hosts: Collection[str],
        reading_token: str,
        refused: Mapping[bytes, str],
        without_token: str = "the token is missing or wrong: open the URL that was printed",
    ) -> None:
        super().__init__()
        self._hosts = tuple(hosts)
        self._reading_token = reading_token
        self._refused = refused
        self._without_token = without_token
        root: Any = self
        files = _static_files()
        for name, content in files.items():
            root.putChild(name.encode(), content)
        root.putChild(b"", files["index.html"])

    def getChild(self, path: bytes, request: Any) -> Any:
        return Refusal(404, "there is no such page")

    def getChildWithDefault(self, path: bytes, request: Any) -> Any:
        for name, value in _HEADERS.items():
            request.setHeader(name, value)
        told = header(request, "host")
        host = told.rpartition(":")[0] or told
        if host not in self._hosts:
            return Refusal(403, f"this page is at http://{self._hosts[0]}, not at {host[:100]}")
        if path.startswith(b"api-") and header(request, "sec-fetch-site") in _ELSEWHERE:
            return Refusal(403, "only the page itself may send this request")
        if request.postpath:
            return Refusal(404, "there is no such page")
        if (why := self._refused.get(path)) is not None:
            return Refusal(403, why)
        asks = path.startswith(b"api-") and path not in WITHOUT_READING_TOKEN
        if asks and not is_same(query_of(request).get("token", ""), self._reading_token):
            return Refusal(403, self._without_token)
        return super().getChildWithDefault(path, request)  # type: ignore[no-untyped-call]


class StaticFile(Resource):
    """Replaces ``twisted.web.static.Data``, whose import raises a DeprecationWarning."""

    def __init__(self, content: bytes, content_type: str) -> None:
        super().__init__()
        self._content, self._content_type = content, content_type

    def render_GET(self, request: Any) -> bytes:
        request.setHeader("content-type", self._content_type)
        return self._content


class Code(Resource):
    """Serves the kafka-zk modules that explanations name, as text."""

    isLeaf = True

    def render_GET(self, request: Any) -> bytes:
        found = code(query_of(request).get("file", ""))
        if found is None:
            return answer(request, {"error": "no explanation names that file"}, 404)
        request.setHeader("Content-Type", "text/plain; charset=utf-8")
        return found


class Refusal(Resource):
    isLeaf = True

    def __init__(self, code: int, why: str) -> None:
        super().__init__()
        self._code = code
        self._why = why

    def render(self, request: Any) -> bytes:
        return answer(request, {"error": self._why}, self._code)


def header(request: Any, name: str) -> str:
    found = request.requestHeaders.getRawHeaders(name.encode())
    return str(found[-1].decode(errors="replace")) if found else ""


def host_of(request: Any) -> str:
    """The browser's address."""
    return str(getattr(request.getClientAddress(), "host", ""))


def is_same(told: str, token: str) -> bool:
    return hmac.compare_digest(told.encode(), token.encode())


def query_of(request: Any) -> Query:
    return {key.decode(errors="replace"): each[-1].decode(errors="replace") for key, each in request.args.items()}


def answer(request: Any, document: Document, code: int = 200) -> bytes:
    """Set the response's status and type; returns its body."""
    request.setResponseCode(code)
    request.setHeader("Content-Type", "application/json")
    return json.dumps(document).encode()


def finish(request: Any, document: Document, code: int) -> None:
    """Send a response later, if the browser is still connected."""
    if not request._disconnected:
        request.write(answer(request, document, code))
        request.finish()


def _static_files() -> dict[str, StaticFile]:
    found = {}
    for file in resources.files("kafka_zk.recorder.web").joinpath("static").iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix in _TYPES:
            found[file.name] = StaticFile(file.read_bytes(), f"{_TYPES[suffix]}; charset=utf-8")
    return found
