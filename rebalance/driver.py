"""The driver of one group member: runs the effects of ``GroupMember`` with the registries, watches and a clock.

Everything runs on the reactor thread. Inputs are processed one at a time and in order. Requests to ZooKeeper are sent
immediately, and each response becomes an input. Responses from earlier sessions are dropped (``_epoch``).
"""

from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, assert_never

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.clock import Clock
from kafka_zk.base.events import EventSource, Observe, harmless, ignore
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import effects, events, inputs
from kafka_zk.rebalance.claims import Claims
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.rebalance.delivery import Delivery
from kafka_zk.rebalance.effects import Effect, PartitionEffect
from kafka_zk.rebalance.inputs import Input
from kafka_zk.rebalance.lease import Lease
from kafka_zk.rebalance.member import GroupMember
from kafka_zk.rebalance.ownership import IN_DOUBT, Ownership
from kafka_zk.rebalance.reporter import GroupReporter
from kafka_zk.rebalance.watches import GroupWatches
from kafka_zk.registry.client.client import RegistryClient, SessionState
from kafka_zk.registry.client.errors import BadVersion, RegistryError, RequestTooLarge, SessionLost
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.group_assignments import GroupAssignmentRegistry
from kafka_zk.registry.offsets import OffsetRefused
from kafka_zk.registry.znodes.consumers import ConsumerRegistration

_log = Logger()


class Identity(NamedTuple):
    """The identity of one member in its group. ``consumer_id``: the name under ``ids``; thread n is
    ``<consumer_id>-<n>``. ``registration``: with the announced strategies and, for a static member, its instance id.
    """

    group: str
    consumer_id: str
    registration: ConsumerRegistration


class GroupDriver:
    """Takes part in rebalances between ``start`` and ``leave``.

    Args:
        clock: the reactor's timers and the wall clock.
        delivery: the consumer that delivers records.
        observe: called with every event of ``rebalance.events`` and ``registry.client.events``. Its errors are logged.
    """

    def __init__(
        self,
        client: RegistryClient,
        clock: Clock,
        identity: Identity,
        delivery: Delivery,
        config: GroupConfig | None = None,
        observe: Observe = ignore,
    ) -> None:
        group, consumer_id, registration = identity
        self.group = group
        self.consumer_id = consumer_id
        self._client = client
        self._clock = clock
        self._registration = registration
        self._delivery = delivery
        self._config = config or GroupConfig()
        self._source = source = EventSource(consumer_id, harmless(observe), clock.wall_ms)
        self._reporter = GroupReporter(source, clock)
        self.lease = Lease(client, clock, self._reporter)
        self._member = GroupMember(consumer_id, registration, self._config)
        self._consumers = ConsumerRegistry(client, group, clock, source)
        self._ownership = Ownership(client, group, source)
        self._assignments = GroupAssignmentRegistry(client, group, source)
        self._watches: GroupWatches | None = None  # this session's watches; None until the member is registered
        self._timers: dict[str, Any] = {}
        self._waiting: deque[Input] = deque()
        self._stepping = False
        self._sessions: list[int] = []  # ids of all sessions of this process
        self._session: int | None = None
        self._epoch = 0
        self._claims = self._claims_of_a_session()
        self._registered: Deferred[None] = Deferred()
        self._left: Deferred[None] = Deferred()
        self._leaving = False
        self._remove_listener: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Returns when registered; partitions arrive through ``Delivery.start``.

        Raises: FencedInstanceId or DuplicateConsumerId if a live member has the id; SessionLost if ``leave`` is called
            first.
        """
        warning = self._config.warning(self._client.session_timeout_ms)
        if warning is not None:
            self._reporter.event(events.SettingsDoubtful, warning)
        self.lease.start()
        self._remove_listener = self._client.add_session_listener(self._session_changed)
        if self._client.state is SessionState.CONNECTED:
            self._open_session()
        await self._registered

    async def leave(self) -> None:
        """Stop delivery, commit, release and unregister; returns when done, or when the session ends."""
        if not self._leaving:
            self._leaving = True
            self._take(inputs.LeaveRequested())
        if not self._left.called:
            done: Deferred[None] = Deferred()
            self._left.chainDeferred(done)
            await done

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, OffsetRefused | None]:
        """Commit offsets. Returns for each partition why its offset was not written; None if it was written.

        IN_DOUBT: try again after ``resume``, unless the partition was dropped. Any other OffsetRefused: this member
        does not own the partition, or no longer owns it (then ``Delivery.drop`` was called).
        """
        epoch = self._epoch
        self.lease.report_if_ended()
        outcomes = await self._ownership.commit(offsets, self.lease.may_write)
        lost = {tp for tp, refused in outcomes.items() if refused is not None and refused != IN_DOUBT}
        if epoch == self._epoch and lost:
            self._take(inputs.OwnershipLost(frozenset(lost), "a commit was refused"))
        self._reporter.commits("commit", offsets, outcomes)
        return outcomes

    @property
    def owned(self) -> Mapping[TopicPartition, int]:
        """Partition -> thread number, for each partition that is delivered now."""
        return self._member.owned

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._end_session()
        elif state is SessionState.SUSPENDED:
            if self._session is not None:
                self.lease.in_doubt = True
                self._take(inputs.Suspended())
        elif self._client.session_id != self._session:
            self._end_session()  # in case a new session replaced it without a LOST event
            self._open_session()
        else:
            self._claims.check()

    def _open_session(self) -> None:
        self._session = self._client.session_id
        assert self._session is not None
        self._sessions.append(self._session)
        self._take(inputs.SessionOpened())

    def _end_session(self) -> None:
        if self._session is None:
            return
        self._session = None
        self._forget()
        self._take(inputs.SessionEnded())

    def _forget(self) -> None:
        self._epoch += 1
        self._claims.close()
        self._claims = self._claims_of_a_session()
        if self._watches is not None:
            self._watches.close()
            self._watches = None
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()
        self._timers.clear()
        self._ownership.forget()

    def _claims_of_a_session(self) -> Claims:
        on_input = partial(self._take_if, self._epoch)
        return Claims(self._ownership, self._clock, self._reporter, self._spawn, on_input)

    def _take(self, event: Input) -> None:
        """Inputs caused by effects wait until all effects of the step have run."""
        self._waiting.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._waiting:
                for effect in self._member.step(self._waiting.popleft(), self._clock.seconds() * 1000):
                    self._run(effect)
        finally:
            self._stepping = False

    def _take_if(self, epoch: int, event: Input) -> None:
        if epoch == self._epoch:
            self._take(event)

    def _spawn(self, work: "Coroutine[Any, Any, None]") -> None:
        def failed(failure: Failure) -> None:
            if failure.check(SessionLost) is None:  # SessionEnded reports it
                self._clock.callLater(0, self._fail, failure)  # later, because a step may be in progress

        ensureDeferred(work).addErrback(failed)

    def _fail(self, failure: Failure) -> None:
        """Stop the member after an error; the ZooKeeper session continues until the consumer closes the client."""
        self._session = None
        self.lease.stop()
        self._remove_listener()
        self._forget()
        self._take(inputs.SessionEnded())
        if not self._registered.called:
            self._registered.errback(failure)
            return  # the caller of ``start`` reports it
        if failure.check(RegistryError):
            _log.error("{member} cannot continue: {error}", member=self.consumer_id, error=failure.value)
        else:
            _log.failure("{member} cannot continue", failure=failure, member=self.consumer_id)
        assert isinstance(failure.value, Exception)
        self._delivery.failed(failure.value)

    def _run(self, effect: Effect) -> None:
        match effect:
            case effects.Register():
                self._spawn(self._register())
            case effects.Unregister():
                self._spawn(self._unregister())
            case effects.Finish():
                self._finish()
            case effects.WatchTopics(wanted):
                if self._watches is not None:
                    self._watches.watch_topics(wanted)
            case effects.HoldTopics(topics):
                if self._watches is not None:
                    self._watches.hold_topics(topics)
            case effects.WriteAssignment():
                self._spawn(self._write_assignment(effect))
            case effects.ReadOwners(topics):
                self._spawn(self._read_owners(topics))
            case effects.SetTimer(name, at_ms):
                self._set_timer(name, at_ms)
            case effects.Note(event):  # stamped with the core's monotonic time
                self._reporter.emit(replace(event, time_ms=self._clock.wall_ms()))
            case _:
                self._run_on_partitions(effect)

    def _run_on_partitions(self, effect: PartitionEffect) -> None:
        match effect:
            case effects.ClaimPartition(threads):
                self._claims.claim(threads)
                self._delivery.prepare(frozenset(threads))
            case effects.WatchOwners(partitions):
                self._claims.watch_owners(partitions)
            case effects.Release(offsets):
                self._claims.release(offsets)
            case effects.StartDelivery(starts):
                self._delivery.start(starts)
            case effects.StopDelivery(stop_id, partitions):
                self._spawn(self._stop_delivery(stop_id, partitions))
            case effects.DropDelivery(partitions):
                self._ownership.drop(partitions)
                self._delivery.drop(partitions)
            case effects.SuspendDelivery():
                self._delivery.suspend()
            case effects.ResumeDelivery():
                self.lease.in_doubt = False
                self._delivery.resume()
            case _:
                assert_never(effect)

    async def _register(self) -> None:
        epoch = self._epoch
        czxid = await self._consumers.register(self.consumer_id, self._registration, self._sessions)
        if self._leaving:
            await retry_until_connected(self._client, lambda: self._consumers.unregister(self.consumer_id))
        if epoch != self._epoch or self._leaving or self._session is None:
            return
        self._take(inputs.Registered(self._session, czxid))
        if self._watches is None:
            self._watches = GroupWatches(self._client, self.group, partial(self._take_if, epoch), self._source)
        if not self._registered.called:
            self._registered.callback(None)

    async def _unregister(self) -> None:
        with suppress(SessionLost):  # the end of the session also removes the registration
            await retry_until_connected(self._client, lambda: self._consumers.unregister(self.consumer_id))
        self._take(inputs.Unregistered())

    def _finish(self) -> None:
        self.lease.stop()
        self._remove_listener()
        self._forget()
        if not self._registered.called:
            self._registered.errback(SessionLost("the member left before it was registered"))
        self._left.callback(None)

    async def _write_assignment(self, effect: effects.WriteAssignment) -> None:
        epoch = self._epoch
        try:
            version = await self._assignments.write(effect.assignment, effect.version)
            stands = inputs.AssignmentRead(effect.assignment, version)
            self._take_if(epoch, inputs.AssignmentSettled(stands, written=True))
        except BadVersion:
            stands = inputs.AssignmentRead(*await retry_until_connected(self._client, self._assignments.read))
            self._take_if(epoch, inputs.AssignmentSettled(stands, written=False))
        except RequestTooLarge as error:
            self._take_if(epoch, inputs.AssignmentSettled(None, written=False, error=str(error)))

    async def _read_owners(self, topics: frozenset[str]) -> None:
        epoch = self._epoch
        owners = await retry_until_connected(self._client, lambda: self._ownership.owners.owners(topics))
        self._take_if(epoch, inputs.OwnersRead(owners))

    async def _stop_delivery(self, stop_id: int, partitions: frozenset[TopicPartition]) -> None:
        epoch = self._epoch
        offsets = await self._delivery.stop(partitions)
        self._take_if(epoch, inputs.DeliveryStopped(stop_id, {tp: offsets.get(tp) for tp in partitions}))

    def _set_timer(self, name: str, at_ms: float) -> None:
        timer = self._timers.get(name)
        if timer is not None and timer.active():
            timer.cancel()
        delay = max(0.0, at_ms / 1000 - self._clock.seconds())
        self._timers[name] = self._clock.callLater(delay, self._take, inputs.TimerFired(name))
