"""Runs the searches in remote storage of one ListOffsets request: concurrently, and with one deadline.

Source: DelayedRemoteListOffsets@4.0 (KIP-1075). Kafka 3.9 searches one partition after another.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import ClientWait, Turns, pause
from kafka_zk.protocol.errors import ApiError, ErrorCode

SEARCHES_AT_ONCE = 8
"""Maximum number of concurrent searches of a request, which leaves reader threads to other requests."""
SEARCH_TIMEOUT_S = 15.0
"""Time limit of all searches of a request together: half of what clients wait by default."""

T = TypeVar("T")


class RemoteSearch(Generic[T]):
    """``search``: may be cancelled while it waits."""

    def __init__(self, search: Callable[[], Awaitable[T]]) -> None:
        self._search = search
        self._outcome: tuple[T] | Exception | None = None

    async def run(self) -> None:
        """Search, and keep the outcome for ``result``."""
        try:
            self._outcome = (await self._search(),)
        except CancelledError:
            return  # at the deadline
        except Exception as error:
            self._outcome = error

    @property
    def result(self) -> T:
        """Raises: what the search raised; ApiError(REQUEST_TIMED_OUT) if the search did not end in time."""
        if self._outcome is None:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "remote storage did not answer in time")
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome[0]


async def search_all(clock: Timers, turns: Turns, searches: Iterable[RemoteSearch[Any]]) -> None:
    """Run the searches for at most SEARCH_TIMEOUT_S, and cancel those that have not ended by then.

    Raises: ClientGone, after it has cancelled all.
    """
    running = _Running(clock)
    try:
        for search in searches:
            if turns.is_over:
                await turns.next()
            if not await running.are_below(SEARCHES_AT_ONCE):
                return
            running.start(search)
        await running.are_below(1)
    finally:
        running.cancel()


class _Running:
    """The searches in progress."""

    def __init__(self, clock: Timers) -> None:
        self._clock = clock
        self._deadline_s = clock.seconds() + SEARCH_TIMEOUT_S
        self._running: set[Deferred[None]] = set()
        self._waiting: ClientWait[None] | None = None

    def start(self, search: RemoteSearch[Any]) -> None:
        run = ensureDeferred(search.run())
        self._running.add(run)
        run.addCallback(self._ended, run)

    def _ended(self, _: None, run: "Deferred[None]") -> None:
        self._running.remove(run)
        if self._waiting is not None and not self._waiting.called:
            self._waiting.callback(None)

    async def are_below(self, count: int) -> bool:
        """Wait until fewer searches than ``count`` are in progress; returns False at the deadline. Raises ClientGone as
        soon as the client disconnects."""
        while len(self._running) >= count:
            left_s = self._deadline_s - self._clock.seconds()
            if left_s <= 0:
                return False
            self._waiting = pause(self._clock, left_s)
            await self._waiting
        return True

    def cancel(self) -> None:
        for run in list(self._running):
            run.cancel()
