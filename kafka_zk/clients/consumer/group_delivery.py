"""What a group makes happen in a consumer, be it one of ZooKeeper or of the broker: partitions come, are given back, or
are lost.

Implements ``rebalance.delivery.Delivery`` on top of the fetch state. A partition that is owned has a claim here; one
that is over is never mistaken for a newer one of the same partition. On the reactor's thread, except for the hand-outs
of the streams. Tests: tests/kafka_zk/clients/consumer/test_zookeeper_consumer_delivery.py,
test_zookeeper_consumer_offsets.py.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping

from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.waiting import Reactor, Signal, run
from kafka_zk.clients.consumer.errors import NoOffsetForPartition
from kafka_zk.clients.consumer.fetch_state import FetchState
from kafka_zk.clients.consumer.fetcher import Fetcher
from kafka_zk.clients.consumer.group_consumer_config import GroupConsumerConfig
from kafka_zk.clients.consumer.membership import Membership
from kafka_zk.clients.consumer.starts import RESETS
from kafka_zk.clients.consumer.starts import Start as FetchStart
from kafka_zk.clients.consumer.stream import Stream
from kafka_zk.clients.consumer.user_side import UserSide
from kafka_zk.rebalance.delivery import Start


class _Claim:
    """One ownership of a partition, from the driver's ``start`` to its end."""

    __slots__ = ("committed", "end", "fetching", "floor", "found", "sought", "start", "stopping", "stream")

    def __init__(self, stream: Stream, start: int) -> None:
        self.stream = stream
        self.start = start  # -1: none was committed, and none was found yet
        self.committed: int | None = start if start >= 0 else None
        self.found: int | None = None  # what auto.offset.reset chose, until something is committed
        self.floor = -1  # the user committed this offset before being done with the records: nothing below is written
        self.sought = False  # the start that is looked up is the user's own
        self.fetching = False
        self.stopping = False
        self.end: int | None = None  # the next offset that is not handed out, once it is stopping


class GroupDelivery:
    """The partitions that this consumer owns.

    ``on_starts_due`` is called when ``starts_due`` has something to commit.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: GroupConsumerConfig,
        cluster: Cluster,
        stream_count: int,
        membership: Membership,
        user: UserSide,
    ) -> None:
        self.on_starts_due: Callable[[], None] = lambda: None
        self._patience_s = config.backoff_ms / 1000  # how long a user may hold records of what is taken away
        self._close_s = math.inf  # when no user is waited for any more
        self._reactor = reactor
        self._config = config
        self._cluster = cluster
        self._membership = membership
        self._user = user
        self._claims: dict[TopicPartition, _Claim] = {}
        self._asked = asked = Signal(reactor)
        self.state = FetchState(config.reader, config.ahead_bytes)
        self.fetcher = Fetcher(reactor, config.reader, cluster, self.state, self._start_found)
        self.streams = [
            Stream(
                reactor,
                number,
                self.fetcher,
                self.state,
                config.deserializers,
                membership,
                asked=lambda: user.call_reactor(asked.fire),
            )
            for number in range(stream_count)
        ]

    # --- rebalance.delivery.Delivery ---

    def prepare(self, partitions: frozenset[TopicPartition]) -> None:
        self.fetcher.prepare(partitions)

    def start(self, starts: Mapping[TopicPartition, Start]) -> None:
        claims = {tp: _Claim(self.streams[start.thread], start.offset) for tp, start in starts.items()}
        self._claims.update(claims)
        if self._user.has_listener:
            run(self._tell_and_fetch(claims))
        else:
            self._fetch(claims)

    def stop(self, partitions: frozenset[TopicPartition]) -> "Awaitable[Mapping[TopicPartition, int | None]]":
        deadline_s = self._reactor.seconds() + self._patience_s
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
        self._membership.suspended = True

    def resume(self) -> None:
        self._membership.suspended = False
        self.on_starts_due()
        self.fetcher.arrived.fire()

    def failed(self, error: Exception) -> None:
        self._membership.failure = error
        self.wake()

    # --- assigning ---

    async def _tell_and_fetch(self, claims: Mapping[TopicPartition, _Claim]) -> None:
        await self._user.before_starting({tp: claim.stream.number for tp, claim in claims.items()})
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

    # --- revoking ---

    async def _stopped(
        self, partitions: frozenset[TopicPartition], claims: Mapping[TopicPartition, _Claim], deadline_s: float
    ) -> dict[TopicPartition, int | None]:
        told: Deferred[None] | None = None
        if self._user.has_listener and claims:
            told = run(self._user.before_releasing(claims))
            told.addBoth(lambda _: self._asked.fire())
        while (told is not None and not told.called) or self._awaited(claims):
            await self._asked.wait_until(min(deadline_s, self._close_s))
            if self._reactor.seconds() >= min(deadline_s, self._close_s):
                break  # the user holds their records for longer than allowed
        left = {tp: claim for tp, claim in claims.items() if self._claims.get(tp) is claim}
        offsets = {tp: self._offset_to_release(tp, claim) for tp, claim in left.items()}
        self._forget(frozenset(left))
        return {tp: offsets.get(tp) for tp in sorted(partitions)}

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

    # --- for the consumer ---

    @property
    def assignment(self) -> list[TopicPartition]:
        """The owned partitions that are delivered, sorted."""
        return sorted(tp for tp, claim in self._claims.items() if not claim.stopping)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The owned partitions, including those that are being revoked."""
        return frozenset(self._claims)

    def is_committed(self, tp: TopicPartition, offset: int) -> bool:
        """Whether this is what is committed of an owned partition, as far as is known here."""
        claim = self._claims.get(tp)
        return claim is not None and claim.committed == offset

    def handed_out(self) -> dict[TopicPartition, int]:
        """Per owned partition the offset behind what was handed out; those without a position are left out."""
        waiting = self._merged(stream.handout.waiting_offsets() for stream in self.streams)
        return self._offsets(self._claims, waiting)

    def processed(self) -> dict[TopicPartition, int]:
        """Per owned partition the offset behind what the user is done with, or has committed explicitly, if it is not
        committed yet."""
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
        """Return a function that returns those of these partitions whose ownership is unchanged since this call."""
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
        """Continue at another offset; records of the partition that the user holds no longer count.

        Raises: KafkaError: not owned.
        """
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
        """Resume paused partitions. Raises: KafkaError: not owned."""
        for tp in partitions:
            self._owned(tp)
            self.state.resume([tp])
        self.fetcher.pump()
        self.fetcher.arrived.fire()

    def close_within(self, patience_s: float) -> None:
        """The consumer closes: from now on it waits for users at most this long, in waits that have begun, too."""
        self._close_s = self._reactor.seconds() + patience_s
        self.wake()

    def wake(self) -> None:
        """Let all waits check their condition again."""
        self.fetcher.arrived.fire()
        self._asked.fire()

    # --- inside ---

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
            self.on_starts_due()

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
