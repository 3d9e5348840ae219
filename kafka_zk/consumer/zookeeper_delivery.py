"""What a group's driver makes happen in a consumer: partitions come, are given back, or are lost.

Implements ``rebalance.delivery.Delivery`` on top of the fetch state. A partition that is owned has a claim here; one
that is over is never mistaken for a newer one of the same partition. On the reactor's thread, except for the hand-outs
of the streams. Tests: tests/kafka_zk/consumer/test_zookeeper_delivery.py, test_zookeeper_offsets.py.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kafka_zk.client.cluster import Cluster
from kafka_zk.client.errors import KafkaError
from kafka_zk.client.waiting import Reactor, Signal, run
from kafka_zk.consumer.errors import NoOffsetForPartition
from kafka_zk.consumer.fetch_state import FetchState
from kafka_zk.consumer.fetcher import Fetcher
from kafka_zk.consumer.rebalance_listener import RebalanceListener
from kafka_zk.consumer.starts import RESETS
from kafka_zk.consumer.starts import Start as FetchStart
from kafka_zk.consumer.stream import Stream
from kafka_zk.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.rebalance.delivery import Start
from kafka_zk.storage.types import TopicPartition

_log = Logger()

CallListener = Callable[..., Awaitable[None] | None]
"""Calls a listener's method with its arguments: directly, or in another thread."""


class _Claim:
    """One ownership of a partition, from the driver's ``start`` to its end."""

    __slots__ = ("committed", "end", "fetching", "floor", "found", "sought", "start", "stopping", "stream")

    def __init__(self, stream: Stream, start: int) -> None:
        self.stream = stream
        self.start = start  # -1: none was committed, and none was found yet
        self.committed: int | None = start if start >= 0 else None
        self.found: int | None = None  # what auto.offset.reset chose, until something is committed
        self.floor = -1  # what the user committed himself, before he was done with it: nothing below is written
        self.sought = False  # the start that is looked up is the user's own
        self.fetching = False
        self.stopping = False
        self.end: int | None = None  # the next offset that is not handed out, once it is stopping


class GroupDelivery:
    """The partitions that this consumer owns.

    Args:
        may_act: the driver's word on whether records may be handed out; any thread.
        held_back: told that records wait which may not be handed out.
        check: raises when the consumer is closed or has failed.
        on_start: called when ``auto.offset.reset`` chose a start: ``starts_due`` has it.
        on_resume: called when the connection to ZooKeeper is good again.
        on_failed: called when this member cannot go on.
        call_listener: how the listener's methods are called.
        call_from_user: how a user's thread calls something on the reactor's.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ZookeeperConsumerConfig,
        cluster: Cluster,
        stream_count: int,
        *,
        may_act: Callable[[], bool],
        held_back: Callable[[], None],
        check: Callable[[], None],
        on_start: Callable[[], None],
        on_resume: Callable[[], None],
        on_failed: Callable[[Exception], None],
        listener: RebalanceListener | None = None,
        call_listener: CallListener = lambda method, *arguments: method(*arguments),
        call_from_user: Callable[[Callable[[], None]], None] = lambda function: function(),
        consumer_id: str = "",
    ) -> None:
        self._reactor = reactor
        self._config = config
        self._cluster = cluster
        self._driver_may_act = may_act
        self._listener = listener
        self._call_listener = call_listener
        self._consumer_id = consumer_id
        self._on_start = on_start
        self._on_resume = on_resume
        self._on_failed = on_failed
        self._suspended = False
        self._claims: dict[TopicPartition, _Claim] = {}
        self._asked = Signal(reactor)
        self.state = FetchState(config.reader, config.ahead_bytes)
        self.fetcher = Fetcher(reactor, config.reader, cluster, self.state, self._start_found)
        self.streams = [
            Stream(
                reactor,
                number,
                self.fetcher,
                self.state,
                config.deserializers,
                check=check,
                may_act=self._may_act,
                held_back=held_back,
                asked=lambda: call_from_user(self._asked.fire),
            )
            for number in range(stream_count)
        ]

    # --- rebalance.delivery.Delivery ---

    def prepare(self, partitions: frozenset[TopicPartition]) -> None:
        self.fetcher.prepare(partitions)

    def start(self, starts: Mapping[TopicPartition, Start]) -> None:
        claims = {tp: _Claim(self.streams[start.thread], start.offset) for tp, start in starts.items()}
        self._claims.update(claims)
        if self._listener is None:
            self._fetch(claims)
        else:
            run(self._tell_and_fetch(claims, self._listener))

    def stop(self, partitions: frozenset[TopicPartition]) -> "Awaitable[Mapping[TopicPartition, int | None]]":
        deadline_s = self._reactor.seconds() + self._config.backoff_ms / 1000
        claims = {tp: self._claims[tp] for tp in partitions if tp in self._claims}
        waiting: dict[TopicPartition, int] = {}
        for stream in self.streams:
            waiting |= stream.handout.withdraw(partitions)
            stream.partitions -= partitions
        for tp, claim in claims.items():
            claim.stopping = True
            claim.end = waiting.get(tp, self._position(tp, claim))
        self.state.remove(partitions)
        return run(self._stopped(partitions, claims, deadline_s))

    def drop(self, partitions: frozenset[TopicPartition]) -> None:
        self._forget(partitions)
        self.state.remove(partitions)
        self._asked.fire()

    def suspend(self) -> None:
        self._suspended = True

    def resume(self) -> None:
        self._suspended = False
        self._on_resume()
        self.fetcher.arrived.fire()

    def failed(self, error: Exception) -> None:
        self._on_failed(error)
        self.wake()

    # --- the way in ---

    async def _tell_and_fetch(self, claims: Mapping[TopicPartition, _Claim], listener: RebalanceListener) -> None:
        streams = {tp: claim.stream.number for tp, claim in claims.items()}
        await self._told(listener.before_starting_fetchers, self._consumer_id, streams)
        self._fetch(claims)

    def _fetch(self, claims: Mapping[TopicPartition, _Claim]) -> None:
        """Start fetching those of the claims that still hold."""
        reset = self._config.reader.auto_offset_reset
        for tp, claim in claims.items():
            if self._claims.get(tp) is not claim or claim.stopping:
                continue
            claim.fetching = True
            claim.stream.partitions.add(tp)
            known = claim.start >= 0
            self.state.add({tp: claim.start if known else reset if reset in RESETS else 0})
            if not known and reset not in RESETS:
                self.state.fail(tp, None, NoOffsetForPartition(tp))
        self._cluster.add_topics(sorted({tp.topic for tp in claims}))
        self.fetcher.pump()
        self.fetcher.arrived.fire()

    # --- the way out ---

    async def _stopped(
        self, partitions: frozenset[TopicPartition], claims: Mapping[TopicPartition, _Claim], deadline_s: float
    ) -> dict[TopicPartition, int | None]:
        told: Deferred[None] | None = None
        if self._listener is not None and claims:
            told = run(self._told(self._listener.before_releasing_partitions, sorted(claims)))
            told.addBoth(lambda _: self._asked.fire())
        while (told is not None and not told.called) or self._awaited(claims):
            try:
                await self._asked.wait_until(deadline_s, _Overdue())
            except _Overdue:
                break
        left = {tp: claim for tp, claim in claims.items() if self._claims.get(tp) is claim}
        offsets = {tp: self._offset_to_release(tp, claim) for tp, claim in left.items()}
        self._forget(frozenset(left))
        return {tp: offsets.get(tp) for tp in partitions}

    def _awaited(self, claims: Mapping[TopicPartition, _Claim]) -> bool:
        """Whether a user who may still poll holds records of these."""
        left = {tp for tp, claim in claims.items() if self._claims.get(tp) is claim}
        for stream in self.streams:
            stream.handout.notify_done = True
            if stream.awaited and not left.isdisjoint(stream.handout.held()):
                return True
        return False

    def _offset_to_release(self, tp: TopicPartition, claim: _Claim) -> int | None:
        if not self._config.auto_commit_enable:
            return None
        offset = claim.stream.handout.undone_offsets().get(tp, claim.end)
        if offset is None or max(offset, claim.floor) == claim.committed:
            return None
        return max(offset, claim.floor)

    def _forget(self, partitions: frozenset[TopicPartition]) -> None:
        for stream in self.streams:
            stream.handout.forget(partitions)
            stream.partitions -= partitions
        for tp in partitions:
            self._claims.pop(tp, None)

    async def _told(self, method: Callable[..., Awaitable[None] | None], *arguments: Any) -> None:
        try:
            answer = self._call_listener(method, *arguments)
            if answer is not None:
                await answer
        except Exception:
            _log.failure("the rebalance listener failed")

    # --- for the consumer ---

    @property
    def assignment(self) -> list[TopicPartition]:
        """What is owned and handed out, sorted."""
        return sorted(tp for tp, claim in self._claims.items() if not claim.stopping)

    def handed_out(self) -> dict[TopicPartition, int]:
        """Per owned partition the offset behind what was handed out; those without a position are left out."""
        waiting = self._merged(stream.handout.waiting_offsets() for stream in self.streams)
        return self._offsets(self._claims, waiting)

    def processed(self) -> dict[TopicPartition, int]:
        """Per owned partition the offset behind what its user is done with, or has committed himself, where it is not
        what is committed."""
        undone = self._merged(stream.handout.undone_offsets() for stream in self.streams)
        running = {tp: claim for tp, claim in self._claims.items() if not claim.stopping}
        offsets = self._offsets(running, undone)
        due = {tp: max(offset, running[tp].floor) for tp, offset in offsets.items()}
        return {tp: offset for tp, offset in due.items() if offset != running[tp].committed}

    def starts_due(self) -> dict[TopicPartition, int]:
        """The starts that ``auto.offset.reset`` chose, of partitions of which nothing was committed since."""
        return {tp: claim.found for tp, claim in self._claims.items() if claim.found is not None and not claim.stopping}

    def committed_by_user(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The user decided to commit these: from now on nothing below is committed by itself, until a seek."""
        for tp, offset in offsets.items():
            if tp in self._claims:
                self._claims[tp].floor = offset

    def under_the_same_claims(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], dict[TopicPartition, int]]:
        """Returns what tells, at any later time, which of these are owned as now (or as now not at all)."""
        claims = {tp: self._claims.get(tp) for tp in offsets}
        return lambda: {tp: offset for tp, offset in offsets.items() if self._claims.get(tp) is claims[tp]}

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These were written."""
        for tp, offset in offsets.items():
            claim = self._claims.get(tp)
            if claim is not None:
                claim.committed, claim.found = offset, None

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record to be handed out; None while it is looked up. Raises: KafkaError: not owned."""
        claim = self._owned(tp)
        return claim.stream.handout.waiting_offsets().get(tp, self._position(tp, claim))

    def seek(self, tp: TopicPartition, start: FetchStart) -> None:
        """Go on elsewhere; what is held of the partition does not count any more. Raises: KafkaError: not owned."""
        claim = self._owned(tp)
        if not claim.fetching:
            raise KafkaError(f"{tp} is not fetched yet: a listener is still at work")
        self.state.seek(tp, start)
        claim.stream.handout.pass_over([tp])
        claim.floor, claim.found = -1, None
        claim.sought = not isinstance(start, int)
        self.fetcher.pump()
        self.fetcher.arrived.fire()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out and fetch nothing more of these. Raises: KafkaError: not owned."""
        for tp in partitions:
            claim = self._owned(tp)
            for offset in claim.stream.handout.withdraw([tp]).values():
                self.state.seek(tp, offset)
            self.state.pause([tp])

    def unpause(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with paused partitions. Raises: KafkaError: not owned."""
        for tp in partitions:
            self._owned(tp)
            self.state.resume([tp])
        self.fetcher.pump()
        self.fetcher.arrived.fire()

    def wake(self) -> None:
        """Let all who wait look again whether there is something to wait for."""
        self.fetcher.arrived.fire()
        self._asked.fire()

    # --- inside ---

    def _may_act(self) -> bool:
        return not self._suspended and self._driver_may_act()

    def _start_found(self, tp: TopicPartition, offset: int) -> None:
        claim = self._claims.get(tp)
        if claim is None:
            return
        if claim.sought:
            claim.sought = False  # it is committed when records are processed, as every place that was sought
            return
        overtaken = claim.start < 0 and claim.committed is not None  # the user committed during the first look-up
        claim.start = offset
        if not overtaken:
            claim.floor, claim.found = -1, offset
            self._on_start()

    def _owned(self, tp: TopicPartition) -> _Claim:
        claim = self._claims.get(tp)
        if claim is None or claim.stopping:
            raise KafkaError(f"{tp} is not owned by this consumer")
        return claim

    def _position(self, tp: TopicPartition, claim: _Claim) -> int | None:
        if not claim.fetching:
            return claim.start if claim.start >= 0 else None
        return self.state.position(tp)

    def _offsets(
        self, claims: Mapping[TopicPartition, _Claim], first: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        offsets = {}
        for tp, claim in claims.items():
            end = claim.end if claim.stopping else self._position(tp, claim)
            offset = first.get(tp, end)
            if offset is not None:
                offsets[tp] = offset
        return offsets

    @staticmethod
    def _merged(parts: Iterable[Mapping[TopicPartition, int]]) -> dict[TopicPartition, int]:
        return {tp: offset for part in parts for tp, offset in part.items()}


class _Overdue(Exception):
    """The user of a stream did not come back in time; never seen outside."""
