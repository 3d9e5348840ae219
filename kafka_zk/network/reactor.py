"""Twisted's epoll reactor with less between an event and the transport that it is for.

Twisted runs every event in a logging context of its own (seven Python calls) and asks the transport for its descriptor
first. A broker's transports are ours, so plain readiness goes straight to ``doRead`` or ``doWrite``; whatever else
epoll reports (hang-up, error, both at once) goes the way it always went.

What many events of a turn ask for can be done once, when all have been handled (``at_end_of_turn``).
Tests: tests/kafka_zk/network/test_reactor.py.
"""

from collections.abc import Callable
from select import EPOLLIN, EPOLLOUT
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.main import installReactor
from twisted.logger import Logger

from kafka_zk.base.clock import monotonic_s

_ONE_THING = (EPOLLIN, EPOLLOUT)
_log = Logger()


class BrokerReactor(EPollReactor):
    """One turn: wait for events, hand each to its transport; an exception or an error returned ends that transport."""

    # Twisted's own attributes, not annotated there.
    _poller: Any
    _selectables: dict[int, Any]
    seconds = staticmethod(monotonic_s)  # timers are due though somebody sets the machine's clock
    _due: tuple[Callable[[], object], ...] = ()

    def at_end_of_turn(self, call: Callable[[], object]) -> None:
        """Call it when the events of this turn are handled; in the next turn if none is under way."""
        self._due += (call,)

    def timeout(self) -> float | None:
        """Twisted's: how long the next turn may wait."""
        return 0 if self._due else super().timeout()

    def doPoll(self, timeout: float | None) -> None:
        selectables = self._selectables
        try:
            events = self._poller.poll(-1 if timeout is None else timeout, len(selectables))
        except InterruptedError:
            return
        for descriptor, event in events:
            selectable = selectables.get(descriptor)
            if selectable is None:  # an earlier event of this turn closed it
                continue
            if event in _ONE_THING:
                try:
                    reason = selectable.doRead() if event == EPOLLIN else selectable.doWrite()
                except BaseException as error:
                    _log.failure("{selectable} failed", selectable=selectable)
                    reason = error
                if reason:
                    self._disconnectSelectable(selectable, reason, event == EPOLLIN)  # type: ignore[no-untyped-call]
            else:
                self._doReadOrWrite(selectable, descriptor, event)  # type: ignore[no-untyped-call]
        if self._due:
            self._end_turn()

    def _end_turn(self) -> None:
        """What the calls ask for themselves has to wait for the next turn."""
        due, self._due = self._due, ()
        for call in due:
            try:
                call()
            except BaseException:
                _log.failure("{call} failed", call=call)

    doIteration = doPoll


def install() -> BrokerReactor:
    """Make it this process's reactor. Raises: ReactorAlreadyInstalledError."""
    reactor = BrokerReactor()  # type: ignore[no-untyped-call]
    installReactor(reactor)
    return reactor
