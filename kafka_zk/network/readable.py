"""Waiting on the reactor until a descriptor of this process has something to read, so that no thread needs to.

Tests: tests/kafka_zk/network/test_readable.py.
"""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from zope.interface import implementer


def when_readable(reactor: Any, descriptor: int) -> "Deferred[None]":
    """Fires when there is something to read, or the other end is closed. Cancel it before the descriptor is closed."""
    return _Waiting(reactor, descriptor).fired


@implementer(IReadDescriptor)
class _Waiting:
    """One wait for one descriptor."""

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
        """The other end is closed, or the reactor ends."""
        self.doRead()
