"""Detects that this process was paused (SIGSTOP, a long garbage collection, a sleeping laptop).

A session can survive a short pause, but a watch may have fired during it. If a claim was removed, another member may
own the partition. Therefore nothing is delivered after a pause until ZooKeeper has responded to a new request: events
of watches that fired earlier arrive before this response.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.clock import Timers
from kafka_zk.registry.client.errors import RegistryError

TURN_S = 0.1
STALL_S = 0.5
"""Shorter pauses are not detected, so records fetched before such a pause may be delivered after it."""


class StallGuard:
    """Any thread may act until the clock reaches ``awake_until_s``.

    ``ask`` sends a request that ZooKeeper's leader answers (sync), so that a lagging server delivers all earlier watch
    events first.
    """

    def __init__(self, clock: Timers, ask: Callable[[], Awaitable[object]]) -> None:
        self._clock = clock
        self._ask = ask
        self.awake_until_s = math.inf
        self._stood_still = False  # no response of ZooKeeper since a pause was detected
        self._asking = False
        self._timer: Any = None

    def start(self) -> None:
        """Begin to detect pauses. Call this on the reactor thread."""
        self._turn_over()

    def stop(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self.awake_until_s = math.inf

    def _turn(self) -> None:
        self._stood_still = self._stood_still or self._clock.seconds() >= self.awake_until_s
        self._turn_over()
        if self._stood_still and not self._asking:
            self._asking = True
            ensureDeferred(self._find_out())

    def _turn_over(self) -> None:
        if not self._stood_still:
            self.awake_until_s = self._clock.seconds() + STALL_S
        self._timer = self._clock.callLater(TURN_S, self._turn)

    async def _find_out(self) -> None:
        try:
            await self._ask()
        except RegistryError:
            self._asking = False  # the request is repeated in the next turn
        else:
            self._clock.callLater(0, self._answered)  # runs after everything that watches scheduled before the response

    def _answered(self) -> None:
        self._asking = self._stood_still = False
        self.awake_until_s = self._clock.seconds() + STALL_S
