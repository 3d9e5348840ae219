"""Requests that wait for a coordinator's core, each identified by a ``Reply``."""

from itertools import count
from typing import Any, NewType

from kafka_zk.base.turns import ClientWait

Reply = NewType("Reply", int)


class Replies:
    """Waiting requests by ``Reply``. A request whose client disconnects is dropped."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[Reply, ClientWait[Any]] = {}
        self._open: set[Reply] = set()  # opened, but not waiting yet
        self._answered: dict[Reply, Any] = {}  # results of opened requests

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self) -> tuple[Reply, ClientWait[Any]]:
        """Add a request. Returns its identifier and its awaitable result."""
        reply = Reply(next(self._numbers))
        waiting = self._waiting[reply] = _Waiting(self, reply)
        return reply, waiting

    def open(self) -> Reply:
        """Add a request that the core may answer immediately. Then call ``outcome``."""
        reply = Reply(next(self._numbers))
        self._open.add(reply)
        return reply

    def outcome(self, reply: Reply) -> Any:
        """The result, or a ``ClientWait`` for it."""
        if reply in self._answered:
            return self._answered.pop(reply)
        self._open.remove(reply)
        waiting = self._waiting[reply] = _Waiting(self, reply)
        return waiting

    def answer(self, reply: Reply, result: object) -> None:
        """Set the result; does nothing if the client has disconnected."""
        if reply in self._open:
            self._open.remove(reply)
            self._answered[reply] = result
            return
        waiting = self._waiting.pop(reply, None)
        if waiting is not None:
            waiting.callback(result)

    def forget(self, reply: Reply) -> None:
        """Drop a request whose client has disconnected."""
        self._waiting.pop(reply, None)


class _Waiting(ClientWait[Any]):

    def __init__(self, replies: Replies, reply: Reply) -> None:
        super().__init__()
        self._replies = replies
        self._reply = reply

    def abandon(self) -> None:
        self._replies.forget(self._reply)
        super().abandon()
