"""Follows one leader: fetches records and brings the logs to the leader's state.

Drives ``FetcherState``, on the reactor thread. There is at most one request at a time. Records are appended partition
by partition, as views of the response. Between partitions, the reactor does other work.

Source: AbstractFetcherThread.scala and ReplicaFetcherThread.scala@3.9.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from twisted.internet.defer import Deferred, DeferredLock, ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.clock import Clock
from kafka_zk.base.threads import RunInThread
from kafka_zk.base.turns import Turns
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.fetcher_effects import (
    Append,
    AskOffsets,
    AskRemoteState,
    Effect,
    FetchRefused,
    StartAnew,
    Truncate,
)
from kafka_zk.broker.replica.fetcher_state import FetcherState
from kafka_zk.broker.replica.leader_endpoint import EARLIEST, LATEST, LeaderEndPoint
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.replica.remote_state import RemoteStateReader
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import FetchResponse
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord, TooManyOpenFiles
from kafka_zk.storage.log.log import Log

_log = Logger()

_BUGS = (AttributeError, LookupError, TypeError, ValueError, AssertionError)
"""Errors that bugs in this broker cause; they are logged with their traceback."""
DirectoryFailed = Callable[[Log, OSError], None]
_NAMED = 3  # partition names in a log line
_EXPECTED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors that leaders return for a short time after elections and topic creations."""

_TIERED = (
    "{tp}: broker {leader} has the next records in remote storage only, but this broker has no remote "
    "storage; this replica stays out of the ISR.  Set remote.log.storage.system.enable=true"
)


class FollowerHost(NamedTuple):
    """The parts of the broker that fetchers use.

    Attributes:
        changed: a partition's log or high watermark has changed.
        directory_failed: a log's disk failed; its partitions become OFFLINE.
        role_changes: lock while many partitions change roles, so that one request covers them all. Its holder must not
        wait for other brokers, because fetching pauses until the lock is released.
        run_in_thread: for flushes.
        remote_state: None without remote storage.
    """

    changed: Callable[[TopicPartition], None]
    directory_failed: DirectoryFailed
    role_changes: DeferredLock
    run_in_thread: RunInThread
    remote_state: RemoteStateReader | None = None


class ReplicaFetcher:
    """Fetches the partitions of one leader. Without partitions, it has no connection and runs no loop.

    ``backoff_s``: pause if the leader cannot be reached.
    """

    def __init__(
        self,
        leader: int,
        clock: Clock,
        endpoint: LeaderEndPoint,
        state: FetcherState,
        host: FollowerHost,
        backoff_s: float,
    ) -> None:
        self.leader = leader
        self._clock = clock
        self._endpoint = endpoint
        self._state = state
        self._changed, self._directory_failed, self._role_changes, self._run_in_thread, self._remote_state = host
        self._backoff_s = backoff_s
        self._unflushed: dict[TopicPartition, None] = {}  # partitions that may need a flush (``flush.messages``)
        self._refusals: dict[tuple[int, bool], list[TopicPartition]] = {}  # this round's errors, logged at its end
        self._remote_faults: dict[TopicPartition, str] = {}  # already logged; cleared by the next success
        self.bytes_in = 0  # bytes of appended records
        self._partitions: dict[TopicPartition, Partition] = {}
        self._failed: set[TopicPartition] = set()
        self._running: Deferred[None] | None = None
        self._sleep: Deferred[None] | None = None
        self._is_reachable = True

    @property
    def partition_count(self) -> int:
        return len(self._partitions)

    @property
    def max_lag(self) -> int:
        """Number of records that the most lagging partition lacks."""
        return self._state.max_lag

    @property
    def failed_count(self) -> int:
        """Partitions not fetched in their leader epoch, because of a local error."""
        return len(self._failed)

    def add(self, partition: Partition) -> None:
        """Fetch a followed partition in its leader epoch from now on."""
        assert partition.log is not None
        self._failed.discard(partition.tp)
        self._partitions[partition.tp] = partition
        self._state.add(partition.tp, partition.topic_id.bytes, partition.leader_epoch, partition.log)
        self._note_unflushed(partition.tp, partition.log)
        if self._running is None:
            self._running = Deferred()
            ensureDeferred(self._run()).addErrback(self._stopped_by_error)
        else:
            self._wake()

    def remove(self, tp: TopicPartition) -> None:
        """Stop fetching a partition. A response in flight is not applied to it."""
        self._failed.discard(tp)
        self._remote_faults.pop(tp, None)
        if self._partitions.pop(tp, None) is not None:
            self._state.remove(tp)
            if not self._partitions:
                self._endpoint.close()
                self._wake()

    def stop(self) -> Awaitable[None] | None:
        """Fires when the request in progress, if any, is done."""
        for tp in list(self._partitions):
            self.remove(tp)
        return self._running

    @contextmanager
    def _for(self, tp: TopicPartition) -> Iterator[None]:
        """Handle errors in the ``with`` block. A disk error takes the log directory offline; after other errors, the
        partition is fetched in its next leader epoch. Source: AbstractFetcherThread.markPartitionFailed@3.9."""
        partition = self._partitions.get(tp)
        log = None if partition is None else partition.log
        try:
            yield
        except TooManyOpenFiles as error:
            _log.warn("{tp} could not be fetched, trying again later: {error}", tp=tp, error=error)
            self._state.delay(tp, self._clock.seconds())
            if log is not None:
                self._note_unflushed(tp, log)
        except OSError as error:
            self._give_up(tp)
            if log is not None:
                self._directory_failed(log, error)
        except Exception:
            _log.failure("{tp} is no longer fetched in this leader epoch", tp=tp)
            self._give_up(tp)

    def _give_up(self, tp: TopicPartition) -> None:
        if tp in self._partitions:
            self.remove(tp)
            self._failed.add(tp)

    # -- the loop -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._partitions:
            try:
                if self._role_changes.locked:
                    await self._until_roles_are_changed()
                await self._round()
            except Exception as error:  # the state of the fetch session is unknown
                if self._partitions:
                    await self._retry_later(error)
        self._ended()

    def _ended(self) -> None:
        self._state.session.restart()
        running, self._running = self._running, None
        if running is not None:
            running.callback(None)

    def _stopped_by_error(self, failure: Failure) -> None:
        """Log the error. The partitions are fetched again in their next leader epochs."""
        _log.failure("the fetcher of broker {leader} has stopped", failure=failure, leader=self.leader)
        for tp in list(self._partitions):
            self._give_up(tp)
        self._ended()

    async def _until_roles_are_changed(self) -> None:
        await self._role_changes.acquire()
        self._role_changes.release()

    async def _round(self) -> None:
        """Truncate, flush, send one request and apply its response."""
        try:
            await self._fetch()
        finally:
            self._tell_refusals()

    async def _fetch(self) -> None:
        state = self._state
        state.wake(self._clock.seconds())
        await self._truncate()
        if self._unflushed:
            await self._flush()
        if not state.session.wanted:
            next_wake_s = state.wake(self._clock.seconds())  # truncations may have caused delays
            if not state.has_work:
                await self._pause(None if next_wake_s is None else max(0.0, next_wake_s - self._clock.seconds()))
            return
        request = state.session.next_request()
        response = await self._endpoint.fetch(state.version, request)
        self._is_reachable = True
        if state.session.take_response(response):
            await self._take(response)
        elif request.session_epoch == 0 and self._partitions:  # more than an expired session
            _log.warn(
                "broker {leader} refused a fetch: {error}",
                leader=self.leader,
                error=ErrorCode.of(response.error_code).name,
            )
            await self._pause(self._backoff_s)

    async def _retry_later(self, error: Exception) -> None:
        self._endpoint.close()
        self._state.session.failed()
        if isinstance(error, _BUGS):
            _log.failure("a fetch from broker {leader} failed", failure=Failure(error), leader=self.leader)
        elif self._is_reachable:
            self._is_reachable = False
            _log.warn("cannot fetch from broker {leader}: {error!r}", leader=self.leader, error=error)
        until_s = self._clock.seconds() + self._backoff_s
        while self._partitions and self._clock.seconds() < until_s:
            await self._pause(until_s - self._clock.seconds())

    async def _pause(self, seconds: float | None) -> None:
        """Wait for ``seconds`` (None: no limit), or until partitions are added or all are removed."""
        if not self._partitions:
            return
        sleep = self._sleep = Deferred()
        call: Any = None if seconds is None else self._clock.callLater(seconds, self._wake)
        try:
            await sleep
        finally:
            if call is not None and call.active():
                call.cancel()

    def _wake(self) -> None:
        sleep, self._sleep = self._sleep, None
        if sleep is not None:
            sleep.callback(None)

    # -- before each fetch --------------------------------------------------------------------------------------------

    def _note_unflushed(self, tp: TopicPartition, log: Log) -> None:
        if log.config.flush_messages < LONG_MAX:
            self._unflushed[tp] = None

    async def _flush(self) -> None:
        """Flush partitions if ``flush.messages`` requires it, because the next fetch reports to the leader what this
        broker has."""
        for tp in list(self._unflushed):
            del self._unflushed[tp]
            with self._for(tp):
                log = self._log_of(tp)
                if log is not None and log.flush_due(self._clock.wall_ms()):
                    await self._flush_log(log)

    async def _flush_log(self, log: Log) -> None:
        work, done = log.prepare_flush()
        try:
            await self._run_in_thread(work)
        finally:
            done()

    # -- before the first fetch ---------------------------------------------------------------------------------------

    async def _truncate(self) -> None:
        questions, here = self._state.truncations()
        for truncation in here:
            with self._for(truncation.tp):
                self._carry_out(truncation)
        if not questions:
            return
        for question, code, end in await self._endpoint.epoch_ends(questions):
            log = self._log_of(question.tp)
            if log is not None:
                with self._for(question.tp):
                    self._carry_out(self._state.epoch_answered(question, code, end, log, self._clock.seconds()))

    # -- responses ----------------------------------------------------------------------------------------------------

    async def _take(self, response: FetchResponse) -> None:
        turns = Turns(self._clock, ignores_disconnect=True)
        out_of_range = []
        for topic, topic_id, partitions in response.topics:
            for fetched in partitions:
                await turns.spend(len(fetched.records or b""))
                tp = self._state.tp(topic, topic_id, fetched.partition)
                log = None if tp is None else self._log_of(tp)
                if tp is None or log is None:
                    continue
                with self._for(tp):
                    effect = self._state.answered(tp, fetched, log, self._clock.seconds())
                    if isinstance(effect, AskOffsets):
                        out_of_range.append(effect)
                    elif isinstance(effect, AskRemoteState):
                        ensureDeferred(self._begin_from_remote(effect, self._partitions[tp], log))
                    else:
                        self._carry_out(effect)
        for question in out_of_range:
            await self._find_offset(question)

    async def _find_offset(self, question: AskOffsets) -> None:
        try:
            end = await self._endpoint.offset(question.tp, question.leader_epoch, LATEST)
            start = await self._endpoint.offset(question.tp, question.leader_epoch, EARLIEST)
        except ApiError as error:
            self._carry_out(self._state.offsets_refused(question, error.code, self._clock.seconds()))
            return
        log = self._log_of(question.tp)
        if log is not None:
            with self._for(question.tp):
                self._carry_out(self._state.out_of_range(question, start, end, log, self._clock.seconds()))

    async def _begin_from_remote(self, asked: AskRemoteState, partition: Partition, log: Log) -> None:
        """Begin a log after the records in remote storage. Other partitions are still fetched, because a store may
        hang."""
        from kafka_zk.storage.log.tiered_log import begin_from_remote  # most brokers have no remote storage

        assert self._remote_state is not None
        tp = asked.tp
        try:
            if not log.config.is_tiered:  # not tiered in ZooKeeper, but the leader has records in remote storage
                log.update_config(log.config.tiered())
            state = await self._remote_state.read(partition, asked.leader_epoch, self._endpoint)
        except Exception as error:
            if isinstance(error, _BUGS):
                _log.failure("the remote state of {tp} could not be read", tp=tp)
            elif tp in self._partitions and self._remote_faults.get(tp) != str(error):
                self._remote_faults[tp] = str(error)
                _log.warn("the remote state of {tp} could not be read, trying again later: {error}", tp=tp, error=error)
            self._state.remote_state_refused(asked, self._clock.seconds())
            self._wake()
            return
        self._remote_faults.pop(tp, None)
        if self._state.is_asked(asked) and self._log_of(tp) is log:
            with self._for(tp):
                begin_from_remote(log, state.start_offset, state.leader_epochs, state.snapshot, self._clock.wall_ms())
                _log.info("{tp} begins at {offset}, after records in remote storage", tp=tp, offset=state.start_offset)
                self._state.begun_from_remote(asked, log)
                self._changed(tp)
            self._wake()

    def _log_of(self, tp: TopicPartition) -> Log | None:
        partition = self._partitions.get(tp)
        return None if partition is None else partition.log

    # -- effects ------------------------------------------------------------------------------------------------------

    def _carry_out(self, effect: Effect | None) -> None:
        if effect is None or isinstance(effect, AskOffsets | AskRemoteState):
            return
        if isinstance(effect, FetchRefused):
            self._note_refusal(effect)
            return
        partition = self._partitions.get(effect.tp)
        log = None if partition is None else partition.log
        if partition is None or log is None:
            return
        try:
            if isinstance(effect, Append):
                self._append(partition, log, effect)
            else:
                self._cut(log, effect)
        except (CorruptRecord, InvalidRecord) as error:
            _log.error(
                "broker {leader} sent invalid records of {tp}: {error}", leader=self.leader, tp=effect.tp, error=error
            )
            self._state.delay(effect.tp, self._clock.seconds())

    def _append(self, partition: Partition, log: Log, effect: Append) -> None:
        before = log.log_end_offset, log.high_watermark
        now_ms = self._clock.wall_ms()
        if effect.restart_at is not None:
            _log.info("the empty log of {tp} begins at {offset}", tp=effect.tp, offset=effect.restart_at)
            log.truncate_fully_and_start_at(effect.restart_at, now_ms)
        if effect.records:
            log.append_as_follower(effect.records, now_ms=now_ms)
            self.bytes_in += len(effect.records)
            self._note_unflushed(effect.tp, log)
        partition.take_leader_high_watermark(effect.high_watermark)
        start_offset = min(effect.log_start_offset, log.high_watermark)
        if start_offset > log.log_start_offset:
            log.increment_log_start_offset(start_offset)
        self._state.appended(effect, log)
        if (log.log_end_offset, log.high_watermark) != before:
            self._changed(effect.tp)

    def _cut(self, log: Log, effect: Truncate | StartAnew) -> None:
        now_ms = self._clock.wall_ms()
        before, high_watermark = log.log_end_offset, log.high_watermark
        if isinstance(effect, StartAnew):
            _log.warn(
                "{tp} starts again at {offset}, where its leader's log starts; it ended at {end}",
                tp=effect.tp,
                offset=effect.offset,
                end=before,
            )
            log.truncate_fully_and_start_at(effect.offset, now_ms)
        elif (truncation := log.truncate_to(effect.offset, now_ms)) is not None:
            tell = _log.warn if effect.offset < high_watermark else _log.info
            tell(
                "{tp} was truncated from {before} to {offset}, high watermark {high_watermark}",
                tp=effect.tp,
                before=before,
                offset=truncation.end_offset,
                high_watermark=high_watermark,
                kept_as=truncation.kept_as,
            )
            if isinstance(effect, Truncate) and effect.has_parted:
                _log.error("{tp}: the leader lost records and wrote others; earlier ones may also differ", tp=effect.tp)
        self._state.truncated(effect, log)
        self._changed(effect.tp)

    def _note_refusal(self, refused: FetchRefused) -> None:
        self._refusals.setdefault((refused.code, refused.is_dropped), []).append(refused.tp)
        if refused.is_dropped:
            self.remove(refused.tp)

    def _tell_refusals(self) -> None:
        """Log errors together, because hundreds occur when a broker dies."""
        refusals, self._refusals = self._refusals, {}
        for (code, is_dropped), tps in refusals.items():
            if code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                for tp in tps:
                    _log.error(_TIERED, tp=tp, leader=self.leader)
                continue
            tell = _log.info if code in _EXPECTED or is_dropped else _log.warn
            tell(
                "broker {leader} answered {tps}{more}: {error}; {then}",
                leader=self.leader,
                tps=", ".join(map(str, tps[:_NAMED])),
                more=f" and {len(tps) - _NAMED} more" if len(tps) > _NAMED else "",
                error=ErrorCode.of(code).name,
                then="fetched again in another leader epoch" if is_dropped else "fetched again later",
            )
