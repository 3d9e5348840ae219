"""Twisted's epoll reactor with a shorter path to the transport; without epoll, Twisted's poll reactor.

For each event, Twisted enters a logging context (seven Python calls) and asks the transport for its descriptor. These
transports need neither, so this reactor calls ``doRead`` or ``doWrite`` directly. Twisted handles other events
(hang-up, error, both together).
"""

from collections.abc import Callable
from typing import Any

from twisted.internet.main import installReactor
from twisted.logger import Logger

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.operating_system.sockets import HAS_EPOLL

if HAS_EPOLL:
    from select import EPOLLIN, EPOLLOUT

    from twisted.internet.epollreactor import EPollReactor as SystemReactor

    _ONE_THING = (EPOLLIN, EPOLLOUT)
else:
    from twisted.internet.pollreactor import PollReactor as SystemReactor  # type: ignore[assignment]

_log = Logger()


class BrokerReactor(SystemReactor):
    """Passes each event to its transport; an exception closes only that transport."""

    # Twisted does not annotate these.
    _poller: Any
    _selectables: dict[int, Any]
    seconds = staticmethod(monotonic_s)  # changes of the clock move no timers
    _due: tuple[Callable[[], object], ...] = ()

    def at_end_of_turn(self, call: Callable[[], object]) -> None:
        """Call ``call`` after this turn's events, or after the next turn's if no turn is running."""
        self._due += (call,)

    def timeout(self) -> float | None:
        """Maximum wait of the next turn in s; None: no limit."""
        return 0 if self._due else super().timeout()

    if HAS_EPOLL:

        def doPoll(self, timeout: float | None) -> None:
            selectables = self._selectables
            try:
                events = self._poller.poll(-1 if timeout is None else timeout, len(selectables))
            except InterruptedError:
                return
            for descriptor, event in events:
                selectable = selectables.get(descriptor)
                if selectable is None:  # closed by an earlier event
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

    else:

        def doPoll(self, timeout: float | None) -> None:
            super().doPoll(timeout)  # type: ignore[no-untyped-call]
            if self._due:
                self._end_turn()

    def _end_turn(self) -> None:
        """Run the calls that are due. Calls that these add run in the next turn."""
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
