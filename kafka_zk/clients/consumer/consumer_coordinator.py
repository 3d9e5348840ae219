"""The driver of a member of a broker-coordinated group: runs the effects of ``classic_member``.

Everything but ``may_act`` runs on the reactor thread. Commits are written one at a time, and only while the ownership
under which they were requested lasts (it may span generations), so a committed offset never decreases by itself.
Source: ConsumerCoordinator.java@3.9.
"""

from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import ClientClosed, KafkaError, broker_error
from kafka_zk.clients.connection.group_coordinator import Committer, GroupCoordinator
from kafka_zk.clients.connection.waiting import Reactor, Signal, run, sleep
from kafka_zk.clients.consumer.classic_member import ClassicMember
from kafka_zk.clients.consumer.classic_requests import ClassicRequests
from kafka_zk.clients.consumer.consumer_config import ConsumerConfig
from kafka_zk.clients.consumer.group_commits import NOT_THE_OWNER, Settled
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.group_effects import (
    CountPartitions,
    Drop,
    Effect,
    Fail,
    FindCoordinator,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Start,
    Stop,
)
from kafka_zk.clients.consumer.starts_looked_up import StartsLookedUp
from kafka_zk.clients.consumer.topics_subscribed import TopicsSubscribed
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.session import fires_within
from kafka_zk.registry.offsets import OffsetRefused

_log = Logger()
_CLOSE_PATIENCE_S = 30.0
"""The timeout of ``close`` in Kafka's consumer."""
_LEAVE_PATIENCE_S = 5.0
"""The timeout of the last commit, and of LeaveGroup."""
_TURN_S = 0.5
"""How often the consumer checks whether the user still polls."""

_ANOTHER_GENERATION = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)

Answers = dict[TopicPartition, OffsetRefused | None]


class ConsumerCoordinator:
    """``now_ms``: the lease's clock, monotonic and readable by any thread."""

    def __init__(
        self,
        reactor: Reactor,
        config: ConsumerConfig,
        cluster: Cluster,
        delivery: GroupDelivery,
        topics: TopicsSubscribed,
        now_ms: Callable[[], float],
    ) -> None:
        self._reactor = reactor
        self._config = config
        self._cluster = cluster
        self._delivery = delivery
        self._topics = topics
        self._now_ms_of = now_ms
        self._coordinator = GroupCoordinator(reactor, config, cluster, config.group_id)
        self._requests = ClassicRequests(config, self._coordinator)
        self._member = ClassicMember(config.member)
        self._starts = StartsLookedUp(delivery.start, self._coordinator.committed)
        self._committing = DeferredLock()
        self._giving_count = 0  # number of calls that wait for users
        self._stop_count = 0  # number of Stop effects in progress
        self._progress = Signal(reactor)  # fires when either number changes
        self._ended: Counter[TopicPartition] = Counter()  # how often each partition was revoked or lost
        self._finding = False
        self._asked_count = 0
        self._asked_ms = 0
        self._timer: Any = None
        self._looking: Any = None
        self._closing = False
        self._left = False

    # --- for the consumer ---

    async def start(self) -> None:
        """Returns when the coordinator has been found.

        Raises: BrokerError if this client may not join (GROUP_AUTHORIZATION_FAILED …); NoBrokersAvailable.
        """
        self._asked_ms = self._now_ms()
        await self._cluster.refresh()
        await self._coordinator.find()
        self._cluster.on_update.append(self._metadata_came)
        self._apply(self._member.start(self._topics.of(self._cluster.metadata), self._now_ms()))
        self._turn()

    def may_act(self) -> bool:
        return self._member.may_act(self._now_ms())

    def report_if_ended(self) -> None:
        """Do nothing: waiting records are delivered after the coordinator's next response, which renews the lease."""

    @property
    def committer(self) -> Committer:
        return Committer(self._member.member_id, self._member.generation_id, self._config.group_instance_id)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Answers:
        """Returns for each partition why its offset was not written, or None if it was.

        Waits for the end of a rebalance for at most ``default.api.timeout.ms``.
        """
        deadline_s = self._reactor.seconds() + self._config.default_api_timeout_ms / 1000
        ended = {tp: self._ended[tp] for tp in offsets}
        await self._committing.acquire()
        try:
            return await self._commit(offsets, ended, deadline_s)
        finally:
            self._committing.release()

    async def leave(self, settled: Settled) -> None:
        """Stop delivery, commit, and leave, without waiting long for a coordinator that does not respond.

        ``settled()`` returns when the user's commits are done. The user must request no more records.
        """
        self._delivery.close_within(_CLOSE_PATIENCE_S)
        self._closing = True
        self._member.close()
        await self._give_everything_back(settled)
        self._end()
        for effect in self._member.leave("the consumer was closed"):
            if isinstance(effect, SendLeave) and not await fires_within(
                self._reactor, run(self._requests.leave(effect)), _LEAVE_PATIENCE_S
            ):
                _log.warn("the group could not be informed that this consumer left: its coordinator did not respond")

    async def close(self) -> None:
        self._end()
        self._coordinator.close()
        self._delivery.close_within(0)
        await self._cluster.close()

    async def _give_everything_back(self, settled: Settled) -> None:
        begun_s = self._reactor.seconds()
        is_settled = await fires_within(self._reactor, run(settled()), _LEAVE_PATIENCE_S)
        patience_s = _LEAVE_PATIENCE_S - (self._reactor.seconds() - begun_s)
        left = self._member.owned - self._member.stopping
        self._starts.withdraw(left)
        offsets = await self._give_back(left)
        while self._giving_count:
            await self._progress.wait()
        settling = run(self._settle_commits(offsets))
        if not (await fires_within(self._reactor, settling, patience_s) and is_settled):
            _log.warn("the last offsets were not committed: the group's coordinator did not respond")

    def _end(self) -> None:
        self._left = True
        for timer in (self._timer, self._looking):
            if timer is not None and timer.active():
                timer.cancel()

    # --- time ---

    def _now_ms(self) -> int:
        return int(self._now_ms_of())

    def _turn(self) -> None:
        if self._left:
            return
        try:
            if not self._closing:
                self._look_at_the_user()
            self._apply(self._member.tick(self._now_ms()))
        finally:
            due_ms = self._member.next_due_ms()
            wait_s = _TURN_S if due_ms is None else min(_TURN_S, max(0, due_ms - self._now_ms()) / 1000)
            self._timer = self._reactor.callLater(wait_s, self._turn)

    def _look_at_the_user(self) -> None:
        now_ms = self._now_ms()
        asked_count = sum(stream.handout.asked_count for stream in self._delivery.streams)
        if asked_count != self._asked_count or any(stream.waiting_count for stream in self._delivery.streams):
            self._asked_count, self._asked_ms = asked_count, now_ms
            self._apply(self._member.come_back(now_ms))
        elif now_ms - self._asked_ms > self._config.max_poll_interval_ms and self._member.is_there:
            _log.warn("no poll for longer than max.poll.interval.ms: this consumer leaves its group until it polls")
            self._apply(self._member.give_up("no poll within max.poll.interval.ms"))

    # --- effects ---

    def _apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if not self._left or isinstance(effect, Drop):
                self._run(effect)

    def _run(self, effect: Effect) -> None:
        match effect:
            case FindCoordinator():
                self._coordinator.forget()
                if not self._finding:
                    self._finding = True
                    self._spawn(self._find())
            case SendJoin():
                self._spawn(self._join(effect))
            case SendSync():
                self._spawn(self._sync(effect))
            case SendHeartbeat():
                self._spawn(self._beat(effect))
            case SendLeave():
                self._spawn(self._requests.leave(effect))
            case CountPartitions(number, topics):
                self._spawn(self._count(number, topics))
            case Start(tps):
                self._delivery.prepare(tps)
                self._spawn(self._starts.begin(dict.fromkeys(sorted(tps), 0)))
            case Stop(number, tps):
                self._starts.withdraw(tps)
                self._spawn(self._stop(number, tps))
            case Drop(tps):
                self._ended.update(tps)
                self._starts.withdraw(tps)
                self._delivery.drop(tps)
            case Fail(code, doing):
                self._delivery.failed(broker_error(code, doing))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        def failed(failure: Failure) -> None:
            if self._left or failure.check(ClientClosed):
                return
            if failure.check(KafkaError) is None:
                _log.failure("a consumer cannot continue", failure=failure)
            assert isinstance(failure.value, Exception)
            self._delivery.failed(failure.value)

        run(work).addErrback(failed)

    async def _find(self) -> None:
        try:
            await self._coordinator.find()
        finally:
            self._finding = False
        self._apply(self._member.coordinator_found(self._now_ms()))

    async def _count(self, number: int, topics: Collection[str]) -> None:
        self._cluster.add_topics(topics)
        while True:
            try:
                await self._cluster.refresh()
                break
            except KafkaError as error:
                if not error.retriable:
                    raise
            await sleep(self._reactor, self._config.retry_backoff_ms / 1000)
        counts = self._counts(topics)
        self._apply(self._member.partitions_counted(number, counts, self._now_ms()))
        self._look_for_missing(counts)

    async def _stop(self, number: int, tps: frozenset[TopicPartition]) -> None:
        self._stop_count += 1
        try:
            await self._commit_and_tell(await self._give_back(tps))
            self._ended.update(tps)
        finally:
            self._stop_count -= 1
            self._progress.fire()
        self._apply(self._member.stopped(number, self._now_ms()))

    async def _give_back(self, tps: frozenset[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        self._giving_count += 1
        try:
            return await self._delivery.stop(tps)
        finally:
            self._giving_count -= 1
            self._progress.fire()

    async def _settle_commits(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        await self._commit_and_tell(offsets)
        while self._stop_count:
            await self._progress.wait()
        await self._committing.acquire()
        self._committing.release()

    async def _commit_and_tell(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        due = {tp: offset for tp, offset in offsets.items() if offset is not None}
        for tp, answer in (await self.commit(due)).items() if due else ():
            if answer is not None:
                _log.info("the offset of {tp} was not committed: {reason}", tp=tp, reason=answer.reason)

    # --- metadata ---

    def _counts(self, topics: Collection[str]) -> dict[str, int]:
        known = self._cluster.metadata
        found = {topic: known.topic(topic) for topic in topics}
        return {topic: 0 if each is None else len(each.partitions) for topic, each in found.items()}

    def _metadata_came(self) -> None:
        if self._left:
            return
        self._apply(self._member.subscribe(self._topics.of(self._cluster.metadata), self._now_ms()))
        self._look_for_missing(self._compare_counts())

    def _compare_counts(self) -> Mapping[str, int]:
        counts = self._counts(self._member.watched_topics)
        self._apply(self._member.partitions_changed(counts, self._now_ms()))
        return counts

    def _look_for_missing(self, counts: Mapping[str, int]) -> None:
        """Fetch metadata regularly, to notice when a subscribed topic is created."""
        if all(counts.values()) or self._left or (self._looking is not None and self._looking.active()):
            return
        delay_s = self._config.retry_backoff_max_ms / 1000
        self._looking = self._reactor.callLater(delay_s, self._cluster.request_update)

    # --- requests ---

    async def _join(self, effect: SendJoin) -> None:
        answer = await self._requests.join(effect)
        self._apply(self._member.join_answered(effect.number, answer, self._now_ms()))

    async def _sync(self, effect: SendSync) -> None:
        code, assignment = await self._requests.sync(effect)
        self._apply(self._member.sync_answered(effect.number, code, assignment, self._now_ms()))
        self._compare_counts()  # the metadata may be newer than the leader's counts

    async def _beat(self, effect: SendHeartbeat) -> None:
        sent_ms = self._now_ms()
        code = await self._requests.heartbeat(effect)
        self._apply(self._member.heartbeat_answered(effect.number, code, sent_ms, self._now_ms()))

    # --- commits ---

    async def _commit(
        self, offsets: Mapping[TopicPartition, int], ended: Mapping[TopicPartition, int], deadline_s: float
    ) -> Answers:
        answers: Answers = {}
        left = dict(offsets)
        codes: dict[TopicPartition, ErrorCode] = {}
        while left:
            member = self._member
            for tp in [tp for tp in left if tp not in member.owned or self._ended[tp] != ended[tp]]:
                answers[tp] = NOT_THE_OWNER  # even if owned again, because another member may have committed
                del left[tp]
            if not left:
                break
            committer = self.committer
            try:
                if member.is_rebalancing:  # a commit would wait behind JoinGroup and might time out
                    codes = dict.fromkeys(left, ErrorCode.REBALANCE_IN_PROGRESS)
                else:
                    codes = await self._coordinator.commit(left, committer)
            except KafkaError as error:
                return answers | dict.fromkeys(left, OffsetRefused(str(error)))
            answers |= _settled(codes)
            self._tell_member(codes, committer)
            left = {tp: offset for tp, offset in left.items() if tp not in answers}
            pause_s = self._config.retry_backoff_ms / 1000
            if left and self._reactor.seconds() + pause_s >= deadline_s:
                return answers | {tp: OffsetRefused(codes[tp].name) for tp in left}
            if left:
                await sleep(self._reactor, pause_s)
        return answers

    def _tell_member(self, codes: Mapping[TopicPartition, ErrorCode], committer: Committer) -> None:
        for code in set(codes.values()) - {ErrorCode.NONE}:
            effects = self._member.commit_refused(committer.member_id, committer.generation_id, code, self._now_ms())
            self._apply(effects)


def _settled(codes: Mapping[TopicPartition, ErrorCode]) -> Answers:
    return {
        tp: None if code is ErrorCode.NONE else OffsetRefused(code.name)
        for tp, code in codes.items()
        if code not in _ANOTHER_GENERATION and (not code.retriable or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    }
