"""Applies a group's decisions to a consumer: partitions are assigned, revoked or lost. Used for both kinds of groups.

Implements ``rebalance.delivery.Delivery`` on top of the fetch state. Each claim of a partition is an object, so a
claim that has ended is never mistaken for a newer one. Everything runs on the reactor thread, except the users' calls
to ``Handout``.
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
    """One ownership of a partition, from its claim to its release."""

    __slots__ = ("committed", "end", "fetching", "floor", "found", "sought", "start", "stopping", "stream")

    def __init__(self, stream: Stream, start: int) -> None:
        self.stream = stream
        self.start = start  # -1: no offset is committed, and the start is not looked up yet
        self.committed: int | None = start if start >= 0 else None
        self.found: int | None = None  # the start that auto.offset.reset chose, until an offset is committed
        self.floor = -1  # the last offset that the user committed explicitly; automatic commits never go below it
        self.sought = False  # the start being looked up comes from the user's seek
        self.fetching = False
        self.stopping = False
        self.end: int | None = None  # when stopping: the first offset that was not delivered


class GroupDelivery:
    """``on_starts_due`` is called when ``starts_due`` is not empty."""

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
        self._patience_s = config.backoff_ms / 1000  # how long a user may keep records of revoked partitions
        self._close_s = math.inf  # time at which the close stops waiting for users
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
                break  # the user has kept the records for longer than allowed
        left = {tp: claim for tp, claim in claims.items() if self._claims.get(tp) is claim}
        offsets = {tp: self._offset_to_release(tp, claim) for tp, claim in left.items()}
        self._forget(frozenset(left))
        return {tp: offsets.get(tp) for tp in sorted(partitions)}

    def _awaited(self, claims: Mapping[TopicPartition, _Claim]) -> bool:
        """True if a user who may still poll holds records of these partitions."""
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
        """The partitions that are not being revoked, sorted."""
        return sorted(tp for tp, claim in self._claims.items() if not claim.stopping)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        return frozenset(self._claims)

    def is_committed(self, tp: TopicPartition, offset: int) -> bool:
        """True if ``offset`` is the last commit of an owned partition, as far as this consumer knows."""
        claim = self._claims.get(tp)
        return claim is not None and claim.committed == offset

    def handed_out(self) -> dict[TopicPartition, int]:
        """The offset after the last delivered record, for each owned partition with a position."""
        waiting = self._merged(stream.handout.waiting_offsets() for stream in self.streams)
        return self._offsets(self._claims, waiting)

    def processed(self) -> dict[TopicPartition, int]:
        """For each owned partition, the offset to commit: after the last processed record, but not below an explicit
        commit. Omits partitions whose offset is already committed.
        """
        undone = self._merged(stream.handout.undone_offsets() for stream in self.streams)
        running = {tp: claim for tp, claim in self._claims.items() if not claim.stopping}
        offsets = self._offsets(running, undone)
        due = {tp: max(offset, running[tp].floor) for tp, offset in offsets.items()}
        return {tp: offset for tp, offset in due.items() if offset != running[tp].committed}

    def starts_due(self) -> dict[TopicPartition, int]:
        """Partition -> the start that ``auto.offset.reset`` chose, if nothing was committed since."""
        return {tp: claim.found for tp, claim in self._claims.items() if claim.found is not None and not claim.stopping}

    def committed_by_user(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The user commits these offsets: until a seek, automatic commits never go below them."""
        for tp, offset in offsets.items():
            if tp in self._claims:
                self._claims[tp].floor = offset

    def under_the_same_claims(self, offsets: Mapping[TopicPartition, int]) -> Callable[[], dict[TopicPartition, int]]:
        """Return a function. When called, it returns those of ``offsets`` whose partitions have kept their claims."""
        claims = {tp: self._claims.get(tp) for tp in offsets}
        return lambda: {tp: offset for tp, offset in offsets.items() if self._claims.get(tp) is claims[tp]}

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for tp, offset in offsets.items():
            claim = self._claims.get(tp)
            if claim is not None:
                claim.committed, claim.found = offset, None

    def position(self, tp: TopicPartition) -> int | None:
        """None while the start is looked up. Raises KafkaError if not owned."""
        claim = self._owned(tp)
        return claim.stream.handout.waiting_offsets().get(tp, self._position(tp, claim))

    def seek(self, tp: TopicPartition, start: FetchStart) -> None:
        """Ignores undelivered and unprocessed records of the partition.

        Raises: KafkaError if the partition is not owned.
        """
        claim = self._owned(tp)
        if not claim.fetching:
            raise KafkaError(f"{tp} is not fetched yet: its listener is still running")
        self.state.seek(tp, start)
        claim.stream.handout.pass_over([tp])
        claim.floor, claim.found = -1, None
        claim.sought = not isinstance(start, int)
        self.fetcher.pump()
        self.fetcher.arrived.fire()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Raises KafkaError if one is not owned."""
        for tp in partitions:
            claim = self._owned(tp)
            for offset in claim.stream.handout.withdraw([tp]).values():
                self.state.seek(tp, offset)
            self.state.pause([tp])

    def unpause(self, partitions: Iterable[TopicPartition]) -> None:
        """Raises KafkaError if one is not owned."""
        for tp in partitions:
            self._owned(tp)
            self.state.resume([tp])
        self.fetcher.pump()
        self.fetcher.arrived.fire()

    def close_within(self, patience_s: float) -> None:
        """The consumer is closing: every wait for users, including one in progress, ends after ``patience_s``."""
        self._close_s = self._reactor.seconds() + patience_s
        self.wake()

    def wake(self) -> None:
        """All waits check their condition again."""
        self.fetcher.arrived.fire()
        self._asked.fire()

    # --- internals ---

    def _start_found(self, tp: TopicPartition, offset: int) -> None:
        claim = self._claims.get(tp)
        if claim is None:
            return
        if claim.sought:
            claim.sought = False  # after a seek, the position is committed only when records are processed
            return
        overtaken = claim.start < 0 and claim.committed is not None  # the user committed during the first lookup
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
