"""Server-sent events with the recording's summary; the page queries the rest."""

import json
from collections.abc import Callable
from typing import Any

from twisted.web.server import NOT_DONE_YET

from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.web.resources import Resource, answer, host_of

MOST_LISTENERS = 50


def _ignore() -> None: ...


class News(Resource):
    """The browsers that listen.

    Args:
        describe: returns the summary; called once for all browsers.
        most: the maximum number of browsers.
        most_of_host: the maximum number of browsers with the same address.
        count_changed: called when a browser has come or gone.
    """

    isLeaf = True

    def __init__(
        self,
        describe: Callable[[], Document],
        most: int = MOST_LISTENERS,
        most_of_host: int = MOST_LISTENERS,
        count_changed: Callable[[], None] = _ignore,
    ) -> None:
        super().__init__()
        self._describe = describe
        self._most = most
        self._most_of_host = most_of_host
        self._count_changed = count_changed
        self._listeners: list[Listener] = []

    @property
    def count(self) -> int:
        return len(self._listeners)

    def render_GET(self, request: Any) -> Any:
        if len(self._listeners) >= self._most:
            return self._refuse(request, f"{self._most} pages are open already")
        host = host_of(request)
        if sum(each.host == host for each in self._listeners) >= self._most_of_host:
            return self._refuse(request, f"{self._most_of_host} pages are open already at your network address")
        request.setHeader("Content-Type", "text/event-stream")
        listener = Listener(request, host)
        self._listeners.append(listener)
        request.notifyFinish().addBoth(lambda _: self._leave(listener))
        request.registerProducer(listener, True)
        listener.tell(self._line())
        self._count_changed()
        return NOT_DONE_YET

    def tell(self) -> None:
        if self._listeners:
            line = self._line()
            for listener in list(self._listeners):
                listener.tell(line)

    def _refuse(self, request: Any, why: str) -> bytes:
        return answer(request, {"error": f"{why}: this page is updated as soon as one of them is closed"}, 503)

    def _leave(self, listener: "Listener") -> None:
        self._listeners.remove(listener)
        self._count_changed()

    def _line(self) -> bytes:
        return f"data: {json.dumps(self._describe())}\n\n".encode()


class Listener:
    """A browser. If it reads slowly, it gets only the latest news (a push producer)."""

    def __init__(self, request: Any, host: str = "") -> None:
        self.host = host
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
