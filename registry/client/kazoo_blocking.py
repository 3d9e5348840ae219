"""The ZooKeeper client of scripts, tools and tests, without a reactor.

    with KazooBlockingClient("localhost:2181/kafka") as client:
        names = run_blocking(TopicRegistry(client).names())

The calling thread does all work: watches and session listeners are called while this thread awaits a response or runs
``process``. Only responses to writes renew the lease, which expires while the thread does other work.
"""

import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, NamedTuple, TypeVar

from kafka_zk.base.clock import boottime_ms, monotonic_s
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import RegistryError, SessionLost
from kafka_zk.registry.client.kazoo_client import KazooClientBase
from kafka_zk.registry.client.kazoo_common import PostedWatch
from kafka_zk.registry.client.security import NO_SECURITY, Security
from kafka_zk.registry.client.session import complete_when_connected

T = TypeVar("T")


def run_blocking(work: Awaitable[T]) -> T:
    """Run an operation, or a coroutine that awaits only operations."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as stop:
        result: T = stop.value
        return result
    steps.close()
    raise RuntimeError("the coroutine awaits something that is not an operation of a blocking client")


class Outcome(Awaitable[T]):
    """An operation's outcome. Awaiting it blocks for at most ``limit_ms``."""

    def __init__(self, client: "KazooBlockingClient", limit_ms: float | None = None) -> None:
        self._client = client
        self._limit_ms = limit_ms
        self._result: T | None = None
        self._error: BaseException | None = None
        self._done = False

    def callback(self, result: T) -> None:
        self._result, self._done = result, True

    def errback(self, error: BaseException) -> None:
        self._error, self._done = error, True

    def __await__(self) -> Generator[Any, Any, T]:
        yield from ()  # a generator, as the protocol requires
        return self.get()

    def get(self) -> T:
        """Raises the operation's error, or ConnectionTimeout after ``limit_ms``."""
        self._client._work_until(lambda: self._done, self._limit_ms)
        if not self._done:
            raise self._client._connection_timeout()
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]


class _Timer(NamedTuple):
    """A delayed call of ``work``. ``due_s``: the earliest time for it, by the monotonic clock."""

    due_s: float
    work: Callable[[], None]


class KazooBlockingClient(KazooClientBase):
    """A RegistryClient whose operations block when awaited, for one thread.

    Arguments and exceptions are those of KazooTwistedClient, but an operation waits up to ``connection_timeout_ms`` for
    a connection, then raises ConnectionTimeout.
    """

    def __init__(
        self,
        connect_string: str,
        session_timeout_ms: int = 18_000,
        *,
        connection_timeout_ms: int | None = None,
        clock_ms: Callable[[], float] = boottime_ms,
        security: Security = NO_SECURITY,
    ) -> None:
        super().__init__(connect_string, session_timeout_ms, connection_timeout_ms, clock_ms, security)
        self._arrived = threading.Event()
        self._start_failure: RegistryError | None = None
        self._timers: list[_Timer] = []

    def start(self) -> None:
        """Connect, and create the chroot if it does not exist.

        Closes the client, then raises: ConnectionTimeout, AuthenticationFailed, NoAuth.
        """
        assert self._session is None and not self._closed, "a client starts once"
        self._open_session()
        self._await_connection()
        failure = self._start_failure
        if failure is None and self._state is not SessionState.CONNECTED:
            failure = self._connection_timeout()
        if failure is not None:
            self._end()
            raise failure

    def close(self) -> Outcome[None]:
        """End the session; ZooKeeper deletes its ephemerals immediately. Blocks for at most a session timeout."""
        self._end()
        outcome: Outcome[None] = Outcome(self)
        outcome.callback(None)
        return outcome

    def connected(self) -> Outcome[None]:
        """See ``RegistryClient.connected``; fails after the connection timeout."""
        outcome: Outcome[None] = Outcome(self, self._settings.connection_timeout_ms)
        complete_when_connected(self, outcome)
        return outcome

    def call_later(self, delay_s: float, work: Callable[[], None]) -> Callable[[], None]:
        """Run ``work`` after ``delay_s``, when the thread next waits or runs ``process``. Returns a function that
        cancels it."""
        timer = _Timer(monotonic_s() + delay_s, work)
        self._timers.append(timer)

        def cancel() -> None:
            if timer in self._timers:
                self._timers.remove(timer)

        return cancel

    def process(self, duration_ms: float) -> None:
        """Run callbacks of watches, session listeners and ``call_later``."""
        self._work_until(lambda: False, duration_ms)

    def __enter__(self) -> "KazooBlockingClient":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _new_waiting(self) -> Outcome[Any]:
        return Outcome(self)

    def _wake(self) -> None:
        self._arrived.set()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        run_blocking(work)

    async def _recognise(self, connection_count: int) -> None:
        """Accept every server, because tools are short-lived."""

    def _started(self, failure: RegistryError | None) -> None:
        self._start_failure = failure

    def _submit(
        self,
        path: str,
        start: Callable[[Any], Any],
        convert: Callable[[Any], Any],
        watch: PostedWatch | None = None,
        *,
        by_leader: bool = False,
    ) -> Awaitable[Any]:
        waits = self._state is not SessionState.CONNECTED and self._session is not None and not self._closed
        if waits and not self._await_connection() and not self._closed:
            return self._failed(self._start_failure or self._connection_timeout())
        return super()._submit(path, start, convert, watch, by_leader=by_leader)

    def _await_connection(self) -> bool:
        self._work_until(
            lambda: self._state is SessionState.CONNECTED or self._start_failure is not None,
            self._settings.connection_timeout_ms,
        )
        return self._state is SessionState.CONNECTED

    def _work_until(self, condition: Callable[[], bool], limit_ms: float | None) -> None:
        end = None if limit_ms is None else monotonic_s() + limit_ms / 1000
        while not condition():
            self._arrived.clear()
            if self._inbox:
                self._inbox.popleft()()
                continue
            now = monotonic_s()
            timer = min(self._timers, key=lambda timer: timer.due_s, default=None)
            if timer is not None and timer.due_s <= now:
                self._timers.remove(timer)
                timer.work()
                continue
            if end is not None and end <= now:
                return
            ends = [each for each in (end, None if timer is None else timer.due_s) if each is not None]
            self._arrived.wait(min(ends) - now if ends else None)

    def _end(self) -> None:
        if self._closed or self._session is None:
            self._closed = True
            return
        connected = self._state is SessionState.CONNECTED
        self._closed = True
        self._connection_count += 1
        ended = threading.Event()
        self._session.end(ended.set)
        ended.wait(self.session_timeout_ms / 1000 if connected else 0)
        self._session_id = None
        self._lease.revoke()
        self._work_until(lambda: not self._inbox, None)
        self._change_state(SessionState.LOST, SessionLost)
