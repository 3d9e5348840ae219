"""Delayed requests, for example a fetch that waits for more bytes.

A delayed request completes once: when its condition is true, or at its timeout. The condition is evaluated when one of
the request's keys is checked. (Kafka: DelayedOperationPurgatory. Here a request is a suspended coroutine, so its code
reads from top to bottom.)
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from twisted.logger import Logger

from kafka_zk.base.clock import AtEndOfTurn, Timers, at_once
from kafka_zk.base.turns import ClientWait

_log = Logger()


class Wait(ClientWait[bool]):
    """Fires with True for its condition, False for its timeout."""

    def __init__(
        self,
        purgatory: "Purgatory",
        condition: Callable[[], bool],
        keys: tuple[Hashable, ...],
        changed: Callable[[Any], None] | None,
    ) -> None:
        super().__init__()
        self.condition = condition
        self.keys = keys
        self.changed = changed
        self.timer: Any = None
        self._purgatory = purgatory

    def abandon(self) -> None:
        """End the wait as the timeout would, because the client is gone."""
        self._purgatory._complete(self, False)

    def expire_early(self) -> None:
        self._purgatory._complete(self, False)


class Purgatory:
    """Delayed requests by key. ``at_end_of_turn``: calls a function at the end of the reactor's turn, see
    ``check_later``."""

    def __init__(self, clock: Timers, at_end_of_turn: AtEndOfTurn = at_once) -> None:
        self._clock = clock
        self._at_end_of_turn = at_end_of_turn
        self._due: dict[Hashable, None] = {}
        self._waiting: dict[Hashable, dict[int, Wait]] = {}
        self._to_check: list[Hashable] = []

    def wait(
        self,
        keys: Iterable[Hashable],
        condition: Callable[[], bool],
        timeout_ms: int,
        changed: Callable[[Any], None] | None = None,
        kind: type[Wait] = Wait,
    ) -> Wait:
        """Wait until a check of one of the keys finds ``condition`` true (fires with True) or the timeout passes (fires
        with False). A negative timeout counts as 0.

        The condition must be false now. Before each evaluation, ``changed`` is called with the checked key. ``kind``:
        the class of the result; the request's connection uses the members that it inherits from ``ClientWait``.
        """
        entry = kind(self, condition, tuple(dict.fromkeys(keys)), changed)
        for key in entry.keys:
            self._waiting.setdefault(key, {})[id(entry)] = entry
        entry.timer = self._clock.callLater(max(0, timeout_ms) / 1000, self._expire, entry)
        return entry

    def check(self, key: Hashable) -> None:
        """Re-evaluate requests for ``key``; they complete before the outermost ``check`` returns."""
        if key in self._waiting:
            self._to_check.append(key)
            if len(self._to_check) == 1:  # otherwise, an outer ``check`` is already running
                self._check_all()

    def check_later(self, key: Hashable) -> None:
        """Call ``check`` at the end of the reactor's turn, only once even if ``key`` changes again until then."""
        if key in self._waiting:
            self._due[key] = None
            if len(self._due) == 1:
                self._at_end_of_turn(self._check_due)

    def _check_due(self) -> None:
        due, self._due = self._due, {}
        for key in due:
            self.check(key)

    def _check_all(self) -> None:
        """Check key by key, because requests that complete each other recursively could overflow the stack."""
        try:
            for key in self._to_check:  # grows during the loop
                for entry in list(self._waiting.get(key, {}).values()):
                    if self._holds(entry, key):
                        self._complete(entry, True)
        finally:
            self._to_check.clear()

    def _holds(self, entry: Wait, key: Hashable) -> bool:
        """Evaluate a condition. An error is logged and ends the request's wait."""
        try:
            if entry.changed is not None:
                entry.changed(key)
            return entry.condition()
        except Exception:
            _log.failure("the condition of a request that waits for {key} failed", key=key)
            return True

    def abandon_all(self) -> None:
        """Complete every delayed request as its timeout would, because the broker is stopping."""
        for waiting in list(self._waiting.values()):
            for entry in list(waiting.values()):
                self._complete(entry, False)

    @property
    def count(self) -> int:
        return len({identity for waiting in self._waiting.values() for identity in waiting})

    def _expire(self, entry: Wait) -> None:
        entry.timer = None
        self._complete(entry, False)

    def _complete(self, entry: Wait, satisfied: bool) -> None:
        if entry.called:
            return
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        for key in entry.keys:
            waiting = self._waiting[key]
            del waiting[id(entry)]
            if not waiting:
                del self._waiting[key]
        entry.callback(satisfied)
