"""Twisted's epoll reactor with a shorter path from an event to its transport.

Twisted handles every event in a logging context (seven Python calls) and asks the transport for its descriptor first.
The transports here need neither, so readiness calls ``doRead`` or ``doWrite`` directly. Other events (hang-up, error,
both together) take Twisted's path.
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
    """Waits for events and passes each to its transport. An exception closes only that transport."""

    # Twisted does not annotate these.
    _poller: Any
    _selectables: dict[int, Any]
    seconds = staticmethod(monotonic_s)  # changes of the machine's clock do not move timers
    _due: tuple[Callable[[], object], ...] = ()

    def at_end_of_turn(self, call: Callable[[], object]) -> None:
        """Call ``call`` after the events of this turn, or in the next turn if no turn is running."""
        self._due += (call,)

    def timeout(self) -> float | None:
        """Maximum wait of the next turn in s; None: no limit."""
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
        """Run the calls that are due. Calls that they add run in the next turn."""
        due, self._due = self._due, ()
        for call in due:
            try:
                call()
            except BaseException:
                _log.failure("{call} failed", call=call)

    doIteration = doPoll


def install() -> BrokerReactor:
    """Install this reactor for the process. Raises ReactorAlreadyInstalledError."""
    reactor = BrokerReactor()  # type: ignore[no-untyped-call]
    installReactor(reactor)
    return reactor
