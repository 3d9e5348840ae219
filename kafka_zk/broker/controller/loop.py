"""One broker's controller: it takes part in the election and, while active, processes one event at a time.

Every occurrence (the election znode, brokers or topics changed; a broker answered) becomes an event in one queue. One
coroutine processes them in order and waits for each event's writes, so no event sees a partial result. The end of a
term bypasses the queue: if the session is lost, or a write fails because another controller was elected, the term ends
immediately and its events are dropped.

    start             watch /controller; if it is absent: elect
    elected           a term begins: the failover of ``active``, then its events
    session LOST      the term ends; the broker registers again and calls ``session_renewed``: elect
    ControllerMoved   the term ends; a later controller exists
    failover fails    the term ends and deletes /controller; elect after a pause
    InvalidZnode      no broker can be elected; retried after a pause, and when /controller_epoch changes
    NoAuth            this broker cannot be elected; retried in the same way
    a KRaft claim     the cluster migrates to KRaft: the term ends, no broker is elected, ``on_kraft`` is called

Source: KafkaController.scala and ControllerEventManager.scala@3.9.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger, LogLevel

from kafka_zk.base.events import EventSource, Observe, harmless, ignore
from kafka_zk.base.turns import Turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events
from kafka_zk.broker.controller.active import ActiveController, Work
from kafka_zk.broker.controller.config import ControllerConfig
from kafka_zk.broker.controller.context import Context
from kafka_zk.broker.controller.environment import Environment
from kafka_zk.broker.controller.operations import ControlledShutdown, ControllerOperation
from kafka_zk.broker.controller.reporter import ControllerReporter
from kafka_zk.broker.controller.turns import EVENT_COST
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import (
    ConnectionLoss,
    ControlledByKRaft,
    ControllerMoved,
    InvalidZnode,
    NoAuth,
    RegistryError,
    SessionLost,
)
from kafka_zk.registry.controller import ControllerRegistry, ControllerWatcher, Elected
from kafka_zk.registry.znodes.controller import CONTROLLER, CONTROLLER_EPOCH

__all__ = ["Controller", "ControllerConfig"]

T = TypeVar("T")

_log = Logger()

ELECTION_BACKOFF_S = 1.0
"""Pause after a failed failover, to prevent a busy loop."""


PAUSE_AFTER_LOSS_S = 0.1

TOLD_WITHIN_S = 3.0
"""How long a stopping broker waits for the other brokers to learn the new leaders of its partitions."""


class _Event(NamedTuple):
    name: str
    work: Work
    active: ActiveController | None  # None for events of the election
    dropped: Callable[[], None] | None = None


class Controller:
    """Call ``start`` when the broker is registered.

    Args:
        observe: called with every event of ``controller.events`` and ``registry.client.events``; its errors are logged.
        known_epoch: returns the largest controller epoch that this broker received.
        on_kraft: a KRaft controller has taken ``/controller``, and the broker should stop.
    """

    def __init__(
        self,
        environment: Environment,
        config: ControllerConfig,
        observe: Observe = ignore,
        known_epoch: Callable[[], int] = lambda: 0,
        on_kraft: Callable[[ControlledByKRaft], None] = lambda _: None,
    ) -> None:
        self._environment = environment
        self.broker_id, client, clock, _, _ = environment
        self.controller_id = -1
        """The broker id in ``/controller``; -1 if absent or unknown."""
        self.is_kraft = False
        """A KRaft controller has taken ``/controller``, so no broker is the controller."""
        self._client = client
        self._clock = clock
        self._config = config
        self._known_epoch = known_epoch
        self._on_kraft = on_kraft
        self._actor = f"controller-{self.broker_id}"
        source = EventSource(self._actor, harmless(observe), clock.wall_ms)
        self._reporter = ControllerReporter(source)
        self._registry = ControllerRegistry(client, source, clock.wall_ms)
        self._active: ActiveController | None = None
        self._queue: deque[_Event] = deque()
        self._waiting_once: set[tuple[str, ActiveController | None]] = set()
        self._working: Deferred[None] | None = None
        self._listeners: list[Callable[[int], None]] = []
        self._watcher: ControllerWatcher | None = None
        self._remove_session_listener: Callable[[], None] = lambda: None
        self._registered = False
        self._resting = False
        self._election_fault = ""
        self._election_due: Any = None
        self._stopped = False

    # -- questions --

    @property
    def is_active(self) -> bool:
        """True if this broker is the controller, to its knowledge."""
        return self._active is not None and self.controller_id == self.broker_id

    @property
    def controller_epoch(self) -> int:
        """The epoch of this broker's term; -1 if it is not the controller."""
        return -1 if self._active is None else self._active.context.epoch

    @property
    def context(self) -> Context:
        """The controller's state, read-only; empty without a term."""
        return Context() if self._active is None else self._active.context

    def on_controller_change(self, callback: Callable[[int], None]) -> None:
        self._listeners.append(callback)

    # -- life --

    async def start(self) -> None:
        """Take part in elections. Returns immediately; ``controller_id`` names the winner later."""
        self._registered = True
        self._remove_session_listener = self._client.add_session_listener(self._session_changed)
        self._watcher = self._registry.watch(self._controller_seen)

    async def session_renewed(self) -> None:
        """Elect a controller, unless one exists. Call this when the broker has registered again in a new session."""
        self._registered = True
        self._put_election()

    async def shutdown(self) -> None:
        """Stop. An active controller resigns, so that another is elected immediately."""
        self._stopped = True
        self._remove_session_listener()
        if self._watcher is not None:
            self._watcher.close()
        if self._election_due is not None:
            self._election_due.cancel()
            self._election_due = None
        active = self._active
        self._end_term("shutdown")
        self._drop(lambda event: True)
        if self._working is not None:
            await self._working
        if active is not None and self._client.state is SessionState.CONNECTED:
            await self._delete_claim(active.context.epoch_zk_version)

    async def handle_controlled_shutdown(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move a stopping broker's leaderships away, and return the partitions that it still leads.

        On return every broker knows the new leaders, unless TOLD_WITHIN_S have passed.

        Raises: ApiError: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE.
        """
        active = self._active
        left = await self.carry_out(ControlledShutdown(broker_id, broker_epoch))
        assert active is not None  # carry_out raises NOT_CONTROLLER without a term
        await active.channels.all_answered(TOLD_WITHIN_S)
        return left

    def allow_unclean_elections(self, *, by_default: bool) -> None:
        """Apply a change of a topic's ``unclean.leader.election.enable``, or of the default to ``by_default``."""
        self._config = replace(self._config, unclean_leader_election_enable=by_default)
        if self._active is not None:
            self._active.allow_unclean_elections(by_default=by_default)

    async def carry_out(self, operation: ControllerOperation[T]) -> T:
        """Run an operation in the queue.

        Raises: the operation's ApiErrors; ApiError(NOT_CONTROLLER) if this broker is not the controller, or its
        term ends before the operation is done.
        """
        active = self._active
        if active is None or not self.is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        answer: Deferred[T] = Deferred()

        async def answered() -> None:
            try:
                result = await operation.carry_out(active)
            except ApiError as error:
                answer.errback(error)
            except RegistryError:
                answer.errback(ApiError(ErrorCode.NOT_CONTROLLER))
                raise
            except Exception:
                answer.errback(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
                raise
            else:
                answer.callback(result)

        def dropped() -> None:
            answer.errback(ApiError(ErrorCode.NOT_CONTROLLER))

        self._put(_Event(operation.name, answered, active, dropped))
        return await answer

    # -- the queue --

    def _put(self, event: _Event) -> None:
        if self._stopped or (event.active is not None and event.active is not self._active):
            self._waiting_once.discard((event.name, event.active))
            if event.dropped is not None:
                event.dropped()
            return
        self._queue.append(event)
        if self._working is None:
            self._working = Deferred()
            ensureDeferred(self._process())

    def _put_once(self, event: _Event) -> None:
        if (event.name, event.active) not in self._waiting_once:
            self._waiting_once.add((event.name, event.active))
            self._put(event)

    async def _process(self) -> None:
        turns = Turns(self._clock, ignores_disconnect=True)
        while self._queue:
            event = self._queue.popleft()
            self._waiting_once.discard((event.name, event.active))
            self._reporter.cause = event.name
            try:
                await self._run(event)
            except ControllerMoved as moved:
                if event.active in (None, self._active):  # None: the event is an election, which includes the failover
                    self._end_term(str(moved))
                self._put_election()
            except SessionLost as lost:
                _log.warn("[{actor}] {event} was abandoned: {error}", actor=self._actor, event=event.name, error=lost)
            except Exception:
                _log.failure(
                    "[{actor}] {event} failed", level=LogLevel.error, actor=self._actor, event=event.name
                )
            self._reporter.log_refused()
            await turns.spend(EVENT_COST)
        working, self._working = self._working, None
        if working is not None:
            working.callback(None)

    async def _run(self, event: _Event) -> None:
        """Process an event; before one of a term, make sure that the session is alive."""
        if event.active is not None:
            try:
                await event.active.store.ready()
            except RegistryError:
                if event.dropped is not None:
                    event.dropped()
                raise
        await event.work()

    def _drop(self, which: Callable[[_Event], bool]) -> None:
        dropped = [event for event in self._queue if which(event)]
        self._queue = deque(event for event in self._queue if not which(event))
        for event in dropped:
            self._waiting_once.discard((event.name, event.active))
            if event.dropped is not None:
                event.dropped()

    # -- the election --

    def _controller_seen(self, controller_id: int | None) -> None:
        """Queue an election, which also finds out whether a claim with this broker's id is from this session."""
        self._set_controller_id(-1 if controller_id is None else controller_id)
        self._put_election()

    def _put_election(self) -> None:
        self._put_once(_Event("election", self._elect, None))

    async def _elect(self) -> None:
        """Run ``_stand``, and repeat it while an invalid znode or an ACL prevents this broker's election."""
        try:
            await self._stand()
        except (InvalidZnode, NoAuth) as error:
            if str(error) != self._election_fault:
                _log.error("[{actor}] no controller can be elected: {error}", actor=self._actor, error=error)
            self._election_fault = str(error)
            if self._election_due is None:  # at most one timer, however often the znode changes
                self._election_due = self._clock.callLater(ELECTION_BACKOFF_S, self._election_is_due)
            await self._answer(lambda: self._client.exists(CONTROLLER_EPOCH, self._epoch_changed))
        else:
            self._election_fault = ""

    def _election_is_due(self) -> None:
        self._election_due = None
        self._put_election()

    def _epoch_changed(self, _: object) -> None:
        self._put_election()

    async def _stand(self) -> None:
        """Resign if another broker holds ``/controller``; run for election if no broker does."""
        seen = await self._answer(self._registry.claim)
        if seen is not None and seen.is_kraft:
            self._keep_out(ControlledByKRaft(seen.broker_id))
            return
        self.is_kraft = False
        claim = None if seen is None else seen.broker_id
        self._set_controller_id(-1 if claim is None else claim)
        if claim != self.broker_id:
            self._end_term(f"{CONTROLLER} names {'no broker' if claim is None else f'broker {claim}'}")
        may_stand = self._registered and not self._resting and not self._stopped
        if self._active is None and may_stand and claim in (None, self.broker_id):
            outcome = await self._answer(lambda: self._registry.elect(self.broker_id, self._known_epoch()))
            if isinstance(outcome, Elected):
                await self._begin_term(outcome)
            else:
                self._set_controller_id(outcome.controller_id)

    def _keep_out(self, kraft: ControlledByKRaft) -> None:
        """Yield to a KRaft controller. Its claim raised the controller epoch, so a term here could not write."""
        self._set_controller_id(-1)
        self._end_term(str(kraft))
        if not self.is_kraft:
            self.is_kraft = True
            self._on_kraft(kraft)

    async def _begin_term(self, elected: Elected) -> None:
        active = self._active = self._new_active_controller(elected)
        try:
            await active.store.ready()  # the process may have been paused and its session lost since the election
            self._set_controller_id(self.broker_id)
            self._reporter.event(events.ControllerElected, elected.epoch)
            self._reporter.info("elected, epoch %d", elected.epoch)
            await active.take_over()
        except (ControllerMoved, SessionLost):
            raise
        except Exception:
            _log.failure("[{actor}] the failover failed, resigning", level=LogLevel.error, actor=self._actor)
            self._end_term("the failover failed")
            self._resting = True
            self._clock.callLater(ELECTION_BACKOFF_S, self._rested)
            await self._delete_claim(elected.epoch_zk_version)
            return
        self._reporter.event(events.ControllerReady, elected.epoch)
        self._reporter.info("ready, epoch %d", elected.epoch)

    def _new_active_controller(self, elected: Elected) -> ActiveController:
        def put(name: str, work: Work, *, once: bool = False) -> None:
            (self._put_once if once else self._put)(_Event(name, work, active))

        active = ActiveController(
            self._environment, elected, self._registry, self._config, put, self._reporter
        )
        return active

    def _end_term(self, cause: str) -> None:
        """End the term: work in progress fails, and queued events are dropped."""
        active, self._active = self._active, None
        if active is None:
            return
        active.end()
        self._drop(lambda event: event.active is active)
        self._reporter.event(events.ControllerResigned, active.context.epoch, cause=cause)
        self._reporter.forget_all()
        self._reporter.info("resigned, epoch %d: %s", active.context.epoch, cause)

    def _rested(self) -> None:
        self._resting = False
        self._put_election()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._registered = False
            self._end_term("the session is lost")
            self._set_controller_id(-1)

    def _set_controller_id(self, controller_id: int) -> None:
        if controller_id == self.controller_id:
            return
        self.controller_id = controller_id
        self._reporter.event(events.ControllerChanged, controller_id)
        for listener in self._listeners:
            listener(controller_id)

    async def _delete_claim(self, epoch_zk_version: int) -> None:
        """Delete ``/controller``; if this fails, the claim ends with the session, or the next election finds it."""
        try:
            await self._registry.resign(epoch_zk_version)
        except RegistryError as error:
            _log.info("[{actor}] {path} was not deleted: {error}", actor=self._actor, path=CONTROLLER, error=error)

    async def _answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat a read after a connection loss in the same session."""
        session_id = self._client.session_id
        while True:
            if self._stopped or self._client.session_id != session_id:
                raise SessionLost("the session in which the election began is over")
            try:
                return await ask()
            except ConnectionLoss:
                waiting: Deferred[None] = Deferred()
                self._clock.callLater(PAUSE_AFTER_LOSS_S, waiting.callback, None)
                await waiting
