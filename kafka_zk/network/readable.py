"""Waits on the reactor until a file descriptor is readable, without a thread."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from zope.interface import implementer


def when_readable(reactor: Any, descriptor: int) -> "Deferred[None]":
    """Fires when the descriptor is readable or its other end is closed. Cancel it before the descriptor is closed."""
    return _Waiting(reactor, descriptor).fired


@implementer(IReadDescriptor)
class _Waiting:
    def __init__(self, reactor: Any, descriptor: int) -> None:
        self._reactor = reactor
        self._descriptor = descriptor
        self.fired: Deferred[None] = Deferred(lambda cancelled: reactor.removeReader(self))
        reactor.addReader(self)

    def fileno(self) -> int:
        return self._descriptor

    def logPrefix(self) -> str:
        return "readable"

    def doRead(self) -> None:
        self._reactor.removeReader(self)
        if not self.fired.called:
            self.fired.callback(None)

    def connectionLost(self, reason: object) -> None:
        self.doRead()
