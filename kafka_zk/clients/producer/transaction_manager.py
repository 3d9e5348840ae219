"""Sends the requests of a producer's transactions: the driver of ``transaction_state``, on the reactor thread.

The coordinator gets one request at a time, so that none overtakes another. After a retriable error, a request is
repeated as long as the transaction needs it.

Source: TransactionManager.java@3.9.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, NamedTuple

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.coordinators import GROUP, TRANSACTION
from kafka_zk.clients.connection.errors import (
    ClientClosed,
    KafkaError,
    KafkaTimeoutError,
    ResponseLost,
    broker_error,
)
from kafka_zk.clients.connection.group_coordinator import ConsumerGroupMetadata
from kafka_zk.clients.connection.key_coordinator import KeyCoordinator
from kafka_zk.clients.connection.waiting import Reactor, Signal, run, sleep
from kafka_zk.clients.producer import transaction_requests as requests
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.idempotence import Idempotence
from kafka_zk.clients.producer.prepared_transaction import PreparedTransaction
from kafka_zk.clients.producer.transaction_requests import Request
from kafka_zk.clients.producer.transaction_state import ID_REFUSALS, Outcome, State, TransactionState, outcome_of
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.client.session import fires_within

_log = Logger()
_CONCURRENT_BACKOFF_MS = 20  # while the last transaction's markers are written; the same as in TransactionManager.java


class Batches(NamedTuple):
    flush: Callable[[], Coroutine[Any, Any, None]]
    none_waits: Callable[[], bool]
    drop_unsent: Callable[[], None]
    wake: Callable[[], None]
    state_changed: Callable[[], None]


class TransactionManager:
    """``state`` says which calls are allowed."""

    def __init__(
        self,
        reactor: Reactor,
        config: ProducerConfig,
        cluster: Cluster,
        idempotence: Idempotence,
        state: TransactionState,
        batches: Batches,
    ) -> None:
        assert config.transactional_id is not None
        self.state = state
        self._reactor = reactor
        self._config = config
        self._cluster = cluster
        self._idempotence = idempotence
        self._batches = batches
        self._transactional_id = config.transactional_id
        self._coordinator = KeyCoordinator(reactor, config, cluster, self._transactional_id, TRANSACTION)
        self._group_coordinators: dict[str, KeyCoordinator] = {}
        self._one_at_a_time = DeferredLock()
        self._changed = Signal(reactor)
        self._closed = False
        self._timed_out: State | None = None  # the requested end (commit or abort) of a call that timed out
        self._is_committed = False  # the coordinator has decided the last commit that was requested
        self._last_trouble = ""  # why the current request was repeated

    # -- the program's calls ------------------------------------------------------------------------------------------

    async def initialize(self) -> None:
        self.state.begin_initialization()
        deadline_s = self._deadline_s()
        try:
            done = await self._new_epoch(lambda: self._reactor.seconds() < deadline_s)
        finally:
            self.state.initialization_failed()
            self._notify()
        if not done:
            raise self.state.error or self._timeout("init_transactions", "try again")

    def begin(self) -> None:
        self.state.begin()
        self._timed_out = None
        self._notify()

    async def commit(self) -> None:
        if self._ended_behind_a_timeout(State.COMMITTING):
            return
        deadline_s = self._deadline_s()
        if self.state.state is not State.COMMITTING:
            self.state.check_in_transaction()
            await self._flush("commit_transaction", deadline_s)
            try:
                self.state.begin_commit()
            finally:
                self._notify()
            self._is_committed = False
            run(self._end(is_committed=True))
        await self._until_ended("commit_transaction", State.COMMITTING, deadline_s)

    async def prepare(self) -> PreparedTransaction | None:
        if self.state.state is not State.PREPARED:
            self.state.check_in_transaction()
            await self._flush("prepare_transaction", self._deadline_s())
            try:
                self.state.prepare()
            finally:
                self._notify()
        return PreparedTransaction(*self._identity) if self.state.state is State.PREPARED else None

    async def abort(self) -> None:
        if self._ended_behind_a_timeout(State.ABORTING):
            return
        if self.state.state is not State.ABORTING:
            self.state.begin_abort()
            self._timed_out = None
            self._is_committed = False
            self._notify()
            self._batches.drop_unsent()
            run(self._end(is_committed=False))
        await self._until_ended("abort_transaction", State.ABORTING, self._deadline_s())

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata, *, is_alone: bool = False
    ) -> None:
        """See ``Producer.send_offsets``. Without a member id, the coordinator cannot recognize a consumer that was
        removed from its group, so only members may commit, unless the group has no members (``is_alone``).
        """
        self.state.check_in_transaction()
        if not offsets:
            return
        if group.member_id == "" and group.generation_id < 0 and not is_alone:
            doing = f"the consumer is not currently a member of group {group.group_id} (it has no generation)"
            error = broker_error(ErrorCode.ILLEGAL_GENERATION, doing)
            self.state.fail(Outcome.ABORTABLE, error)
            self._notify()
            self.state.check_in_transaction()
        deadline_s = self._deadline_s()

        def is_wanted() -> bool:
            return self.state.state is State.IN_TRANSACTION and self._reactor.seconds() < deadline_s

        self.state.offsets_asked(group.group_id, offsets)
        identity = self._identity
        done = await self._ask(self._coordinator, requests.add_offsets(*identity, group.group_id), is_wanted)
        if done is not None:
            self.state.group_added()
            coordinator = self._group_coordinators.get(group.group_id)
            if coordinator is None:
                coordinator = KeyCoordinator(self._reactor, self._config, self._cluster, group.group_id, GROUP)
                self._group_coordinators[group.group_id] = coordinator
            done = await self._ask(coordinator, requests.commit_offsets(*identity, group, offsets), is_wanted)
        if done is None:
            self.state.check_in_transaction()
            raise self._timeout("send_offsets", "abort the transaction, or try again")
        self.state.offsets_sent(group.group_id, offsets)

    # -- the sender's calls -------------------------------------------------------------------------------------------

    def add_new_partitions(self) -> None:
        tps = self.state.take_new()
        if tps:
            run(self._add(tps))

    def failed(self, error: KafkaError) -> None:
        self.state.batch_failed(error)
        self._notify()

    def not_sent(self, error: KafkaError) -> None:
        """A record was not added to a batch."""
        self.state.fail(Outcome.ABORTABLE, error)
        self._notify()

    def close(self) -> None:
        self._closed = True
        self._changed.fire()

    # -- internals ----------------------------------------------------------------------------------------------------

    @property
    def _identity(self) -> tuple[str, int, int]:
        return self._transactional_id, self._idempotence.producer_id, self._idempotence.epoch

    async def _flush(self, method: str, deadline_s: float) -> None:
        """Flush until no record is waiting, including those sent during the flush.

        Raises: KafkaTimeoutError after ``max.block.ms``; delivery continues. If records have failed: the errors of
        ``check_in_transaction``.
        """
        while await fires_within(self._reactor, run(self._batches.flush()), deadline_s - self._reactor.seconds()):
            if self._batches.none_waits():
                return
        self.state.check_in_transaction()
        raise self._timeout(method, "records are still being sent: call it again")

    async def _add(self, tps: Iterable[TopicPartition]) -> None:
        def is_wanted() -> bool:
            return self.state.state in (State.IN_TRANSACTION, State.COMMITTING)

        tps = list(tps)
        if await self._ask(self._coordinator, requests.add_partitions(*self._identity, tps), is_wanted) is not None:
            self.state.added(tps)
        self._batches.wake()

    async def _end(self, *, is_committed: bool) -> None:
        ending = self.state.state
        await self._batches.flush()
        if self.state.state is not ending:
            return  # a batch failed
        if self.state.has_something:
            request = requests.end(*self._identity, is_committed=is_committed, is_known=self.state.is_known)
            if await self._ask(self._coordinator, request, self._goes_on) is None and not self._is_forgotten:
                return
            self._is_committed = is_committed
        if self.state.needs_epoch_bump and not await self._new_epoch(self._goes_on):
            return
        if self.state.state is ending:
            self.state.ended()
        self._notify()

    @property
    def _is_forgotten(self) -> bool:
        """True if the coordinator forgot the producer, so there is nothing to abort."""
        return self.state.state is State.ABORTING and self.state.needs_epoch_bump and not self._closed

    def _goes_on(self) -> bool:
        return not self._closed

    async def _new_epoch(self, is_wanted: Callable[[], bool]) -> bool:
        """Request a new epoch with the old id and epoch, so that a successor is not fenced (KIP-360)."""
        timeout_ms = self._config.transaction_timeout_ms
        answer = await self._ask(self._coordinator, requests.init_producer_id(*self._identity, timeout_ms), is_wanted)
        if answer is None:
            return False
        self._idempotence.start_over(answer.producer_id, answer.producer_epoch)
        self.state.epoch_bumped()
        if self.state.state is State.INITIALIZING:
            self.state.initialized()
        return True

    async def _ask(self, coordinator: KeyCoordinator, request: Request, is_wanted: Callable[[], bool]) -> Any:
        await self._one_at_a_time.acquire()
        try:
            self._last_trouble = ""
            while is_wanted() and not self._closed:
                code, answer = await self._attempt(coordinator, request)
                if code is ErrorCode.NONE:
                    self._last_trouble = ""
                    return answer
                outcome = outcome_of(code)
                if outcome is Outcome.FIND_AND_RETRY:
                    coordinator.forget()
                elif outcome is not Outcome.RETRY:
                    self._failed(request, code, outcome)
                    return None
                is_concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS
                pause_ms = _CONCURRENT_BACKOFF_MS if is_concurrent else self._config.retry_backoff_ms
                await sleep(self._reactor, pause_ms / 1000)
            return None
        finally:
            self._one_at_a_time.release()

    def _failed(self, request: Request, code: ErrorCode, outcome: Outcome) -> None:
        error = broker_error(code, request.doing)
        if request.api_key is ApiKey.INIT_PRODUCER_ID and code in ID_REFUSALS:
            self.state.id_refused(error)
        elif request.api_key is ApiKey.INIT_PRODUCER_ID and outcome is not Outcome.FENCED:
            self.state.fail(Outcome.FATAL, error)  # no abort would help: the transaction, if any, has ended
        else:
            self.state.fail(outcome, error)
        self._notify()

    async def _attempt(self, coordinator: KeyCoordinator, request: Request) -> tuple[ErrorCode, Any]:
        try:
            answer = await coordinator.ask(request.api_key, request.message, request.lowest, request.highest)
        except ClientClosed:
            self._closed = True
            return ErrorCode.NETWORK_EXCEPTION, None
        except KafkaError as error:
            if not self._closed:
                _log.debug("{doing}: {error}", doing=request.doing, error=error)
                self._last_trouble = f"{request.doing}: {error}"
            if isinstance(error, ResponseLost):
                self.state.answer_lost()
            if error.code is None:
                return ErrorCode.NETWORK_EXCEPTION if error.retriable else ErrorCode.UNKNOWN_SERVER_ERROR, None
            return error.code, None
        code = _decisive(request.codes_of(answer))
        self._last_trouble = f"{request.doing}: {code.name}"
        return code, answer

    async def _until_ended(self, method: str, ending: State, deadline_s: float) -> None:
        while self.state.state is ending:
            if self._closed:
                if self._is_committed:
                    return
                raise ClientClosed("the producer was closed")
            if not await self._changed.wait_until(deadline_s) and self.state.state is ending:
                self._timed_out = ending
                known = "it is committed, but has no next epoch" if self._is_committed else "its outcome is not known"
                raise self._timeout(method, f"{known} yet: call it again")
        self._timed_out = None
        if self.state.error is not None and not self._is_committed:
            raise self.state.error  # after a commit, the next ``begin`` raises it

    def _ended_behind_a_timeout(self, ending: State) -> bool:
        """True once if the last call timed out and its request has succeeded since."""
        is_over = self.state.state is State.READY or (self._is_committed and self.state.state is not ending)
        if self._timed_out is not ending or not is_over:
            return False
        self._timed_out = None
        return True

    def _notify(self) -> None:
        self._batches.state_changed()
        self._changed.fire()

    def _deadline_s(self) -> float:
        return float(self._reactor.seconds()) + self._config.max_block_ms / 1000

    def _timeout(self, method: str, advice: str) -> KafkaTimeoutError:
        last = f"; last: {self._last_trouble}" if self._last_trouble else ""
        return KafkaTimeoutError(
            f"{method}: no answer within {self._config.max_block_ms} ms (max.block.ms){last}; {advice}",
            ErrorCode.REQUEST_TIMED_OUT,
        )


def _decisive(codes: Iterable[int]) -> ErrorCode:
    found = [ErrorCode.of(code) for code in codes if code]
    causes = [code for code in found if code is not ErrorCode.OPERATION_NOT_ATTEMPTED]
    given_up = [code for code in causes if outcome_of(code) not in (Outcome.RETRY, Outcome.FIND_AND_RETRY)]
    return next(iter(given_up or causes or found), ErrorCode.NONE)
