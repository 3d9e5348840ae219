"""News for browsers that read slowly, and for many browsers."""

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred

from kafka_zk.recorder.web.news import Listener, News


class Request:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, line: bytes) -> None:
        self.written.append(line)


def test_a_slow_browser_gets_the_latest_news_only() -> None:
    request = Request()
    listener = Listener(request)
    listener.tell(b"1")
    listener.pauseProducing()
    for number in range(2, 1_000):
        listener.tell(b"%d" % number)
    listener.resumeProducing()
    listener.tell(b"1000")
    assert request.written == [b"1", b"999", b"1000"]


class Browser(Request):
    """A browser's request, which stays open."""

    def __init__(self) -> None:
        super().__init__()
        self.code = 200
        self._closed: Deferred[None] = Deferred()

    def getClientAddress(self) -> IPv4Address:
        return IPv4Address("TCP", "192.0.2.1", 50_000)

    def setHeader(self, name: str, value: str) -> None: ...

    def setResponseCode(self, code: int) -> None:
        self.code = code

    def notifyFinish(self) -> "Deferred[None]":
        return self._closed

    def registerProducer(self, producer: Any, streaming: bool) -> None: ...

    def close(self) -> None:
        self._closed.callback(None)


def test_the_summary_is_computed_once_for_all_browsers() -> None:
    computed: list[int] = []

    def describe() -> dict[str, int]:
        computed.append(1)
        return {"count": len(computed)}

    counts: list[int] = []
    news = News(describe, 2, 2, lambda: counts.append(news.count))
    browsers = [Browser() for _ in range(3)]
    for each in browsers:
        news.render_GET(each)
    assert [each.code for each in browsers] == [200, 200, 503]
    computed.clear()
    news.tell()
    assert len(computed) == 1
    assert browsers[0].written[-1] == browsers[1].written[-1] == b'data: {"count": 1}\n\n'
    browsers[0].close()
    assert counts == [1, 2, 1]
