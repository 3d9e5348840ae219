"""Requests that wait until a coordinator's core answers them. The core knows a request as a ``Reply``, a number."""

from itertools import count
from typing import Any, NewType

from kafka_zk.base.turns import ClientWait

Reply = NewType("Reply", int)


class Replies:
    """Requests that wait for a coordinator's core. One whose client is gone is forgotten."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[Reply, ClientWait[Any]] = {}
        self._open: set[Reply] = set()  # those that do not wait yet
        self._answered: dict[Reply, Any] = {}  # of these

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self) -> tuple[Reply, ClientWait[Any]]:
        """The name of a request, and what it awaits."""
        reply = Reply(next(self._numbers))
        waiting = self._waiting[reply] = _Waiting(self, reply)
        return reply, waiting

    def open(self) -> Reply:
        """The name of a request that asks for its ``outcome`` as soon as the core has been told of it."""
        reply = Reply(next(self._numbers))
        self._open.add(reply)
        return reply

    def outcome(self, reply: Reply) -> Any:
        """The result if there is one already, else a ``ClientWait`` for it."""
        if reply in self._answered:
            return self._answered.pop(reply)
        self._open.remove(reply)
        waiting = self._waiting[reply] = _Waiting(self, reply)
        return waiting

    def answer(self, reply: Reply, result: object) -> None:
        """The request goes on with ``result``, if its client is still there."""
        if reply in self._open:
            self._open.remove(reply)
            self._answered[reply] = result
            return
        waiting = self._waiting.pop(reply, None)
        if waiting is not None:
            waiting.callback(result)

    def forget(self, reply: Reply) -> None:
        """Its client is gone."""
        self._waiting.pop(reply, None)


class _Waiting(ClientWait[Any]):
    """One request that waits."""

    def __init__(self, replies: Replies, reply: Reply) -> None:
        super().__init__()
        self._replies = replies
        self._reply = reply

    def abandon(self) -> None:
        self._replies.forget(self._reply)
        super().abandon()
