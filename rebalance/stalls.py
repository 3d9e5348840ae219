"""Notices that this process stood still (SIGSTOP, a long collection, a laptop that slept).

The lease says that the session is alive, and outlasts a short pause. But watches may have fired meanwhile: a claim that
was removed can belong to another member by now. So after a pause nothing is handed out until ZooKeeper has answered a
request that was sent after it: what fired before comes before the answer. Tests:
``tests/rebalance/test_vanished_claims.py``.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.clock import Timers
from kafka_zk.registry.client.errors import RegistryError

TURN_S = 0.1
STALL_S = 0.5
"""Shorter pauses are not noticed; what was fetched before them may be handed out in the moment of waking up."""


class StallGuard:
    """``ask`` sends ZooKeeper a request that its leader answers: a server that lags has told all that fired by then.

    ``awake_until_s`` is asked before each record, by any thread: all that happened before is known as long as the clock
    has not reached it.
    """

    def __init__(self, clock: Timers, ask: Callable[[], Awaitable[object]]) -> None:
        self._clock = clock
        self._ask = ask
        self.awake_until_s = math.inf
        self._stood_still = False
        self._asking = False
        self._timer: Any = None

    def start(self) -> None:
        """Watch the clock from now on; on the reactor's thread."""
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
            self._asking = False  # the next turn asks again
        else:
            self._clock.callLater(0, self._answered)  # after all that the watches before the answer have planned

    def _answered(self) -> None:
        self._asking = self._stood_still = False
        self.awake_until_s = self._clock.seconds() + STALL_S
