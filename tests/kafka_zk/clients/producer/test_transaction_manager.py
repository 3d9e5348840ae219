"""The driver of transactions against a coordinator that refuses requests, moves and loses responses."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError, broker_error
from kafka_zk.clients.connection.group_coordinator import ConsumerGroupMetadata
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.producer import transaction_manager
from kafka_zk.clients.producer import transaction_requests as requests
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.errors import ProducerFenced, TransactionAbortable, TransactionFatal
from kafka_zk.clients.producer.idempotence import Idempotence
from kafka_zk.clients.producer.transaction_manager import Batches, TransactionManager
from kafka_zk.clients.producer.transaction_scope import TransactionScope
from kafka_zk.clients.producer.transaction_state import State, TransactionState
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.producer.model_coordinator import ModelCoordinator

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", "m", 3)


class World:
    """A manager without batches: its records are always sent already."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int = 0, fault_rate: float = 0.0) -> None:
        self.clock = Clock()
        self.coordinator = ModelCoordinator(random.Random(seed), fault_rate)
        self.dropped = 0
        self.flushed: Deferred[None] = succeed(None)
        monkeypatch.setattr(transaction_manager, "KeyCoordinator", lambda *_: self.coordinator)
        config = ProducerConfig(transactional_id="x", max_block_ms=60_000)
        self.idempotence = Idempotence(transactional=True)
        self.state = TransactionState()
        batches = Batches(self._flush, lambda: True, self._drop, lambda: None, lambda: None)
        self.manager = TransactionManager(self.clock, config, None, self.idempotence, self.state, batches)  # type: ignore[arg-type]

    async def _flush(self) -> None:
        await self.flushed

    def _drop(self) -> None:
        self.dropped += 1

    def done(self, work: Any) -> Any:
        """Returns the result of ``work``, however long it takes, or raises its error."""
        results: list[Any] = []
        running = work if isinstance(work, Deferred) else run(work)
        running.addBoth(results.append)
        for _ in range(10_000):
            if results:
                break
            self.clock.advance(0.01)
        assert results, "the work does not end"
        if hasattr(results[0], "raiseException"):
            results[0].raiseException()
        return results[0]

    def raised(self, work: Any) -> KafkaError:
        with pytest.raises(KafkaError) as caught:
            self.done(work)
        return caught.value

    def send(self, tp: TopicPartition) -> None:
        """Send a batch to the partition, once the partition is in the transaction."""
        for _ in range(10_000):
            if self.state.state is not State.IN_TRANSACTION or self.state.may_send(tp, is_retry=False):
                return
            self.manager.add_new_partitions()
            self.clock.advance(0.01)
        raise AssertionError("the partition is never added")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.done(made.manager.initialize())
    return made


def test_records_and_offsets_are_committed_together(world: World) -> None:
    """Partitions and the group are added first; one EndTxn ends both."""
    world.manager.begin()
    world.send(A)
    world.done(world.manager.send_offsets({B: 7}, GROUP))
    world.done(world.manager.commit())
    assert world.coordinator.asked == [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ]
    assert world.coordinator.ends == [True] and world.coordinator.committed_offsets == {B: 7}


@pytest.mark.parametrize("ending", [TransactionManager.commit, TransactionManager.prepare])
def test_nothing_is_committed_without_the_offsets_that_were_to_be_in_it(world: World, ending: Any) -> None:
    """The program continues after the timeout of ``send_offsets``. When it sends the offsets again, they are committed.
    """

    def begin_and_miss_offsets() -> None:
        world.manager.begin()
        world.send(A)
        world.coordinator.next_codes = [ErrorCode.NONE] + [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000
        assert isinstance(world.raised(world.manager.send_offsets({B: 7}, GROUP)), KafkaTimeoutError)
        world.coordinator.next_codes.clear()
        world.done(world.manager.send_offsets({A: 3}, GROUP))

    begin_and_miss_offsets()
    assert isinstance(world.raised(ending(world.manager)), TransactionAbortable)
    world.done(world.manager.abort())
    begin_and_miss_offsets()
    world.done(world.manager.send_offsets({B: 7}, GROUP))
    world.done(world.manager.commit())
    assert world.coordinator.ends == [False, True]
    assert world.coordinator.committed_offsets == {A: 3, B: 7}


def test_a_transaction_without_anything_asks_nobody(world: World) -> None:
    world.manager.begin()
    world.done(world.manager.commit())
    world.manager.begin()
    world.done(world.manager.abort())
    assert world.coordinator.asked == [ApiKey.INIT_PRODUCER_ID]


def test_a_failed_batch_makes_the_commit_fail_and_the_epoch_rise(world: World) -> None:
    """The program aborts and continues with the same producer."""
    world.manager.begin()
    world.send(A)
    world.manager.failed(broker_error(ErrorCode.MESSAGE_TOO_LARGE, "producing"))
    assert isinstance(world.raised(world.manager.commit()), TransactionAbortable)
    world.done(world.manager.abort())
    assert (world.coordinator.ends, world.idempotence.epoch) == ([False], 1)
    world.manager.begin()
    world.send(A)
    world.done(world.manager.commit())
    assert world.coordinator.ends == [False, True]


def test_a_batch_that_fails_during_the_commit_prevents_it(world: World) -> None:
    """EndTxn is sent only when all records are in the log."""
    world.manager.begin()
    world.send(A)
    world.state.begin_commit()
    flushed: Deferred[None] = Deferred()
    world.flushed = flushed
    committing = run(world.manager.commit())
    ending = run(world.manager._end(is_committed=True))
    world.manager.failed(broker_error(ErrorCode.REQUEST_TIMED_OUT, "producing"))
    flushed.callback(None)
    assert ending.called and world.coordinator.ends == []
    with pytest.raises(TransactionAbortable):
        world.done(committing)


def test_a_consumer_outside_of_its_group_commits_nothing(world: World) -> None:
    """The consumer was removed for being slow: the coordinator could not distinguish it from a client without a group.
    """
    world.manager.begin()
    outside = ConsumerGroupMetadata("g")
    error = world.raised(world.manager.send_offsets({B: 7}, outside))
    assert isinstance(error, TransactionAbortable) and error.code is ErrorCode.ILLEGAL_GENERATION
    world.done(world.manager.abort())
    world.manager.begin()
    world.done(world.manager.send_offsets({B: 8}, outside, is_alone=True))
    world.done(world.manager.commit())
    assert world.coordinator.committed_offsets == {B: 8}


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED])
def test_a_fenced_producer_can_only_be_closed(world: World, code: ErrorCode) -> None:
    world.manager.begin()
    world.send(A)
    world.coordinator.next_codes = [code]
    assert isinstance(world.raised(world.manager.commit()), ProducerFenced)
    assert isinstance(world.raised(world.manager.abort()), ProducerFenced)


def test_a_member_that_is_out_of_its_generation_aborts(world: World) -> None:
    """Another member owns its partitions: neither records nor offsets are committed (KIP-447)."""
    world.manager.begin()
    world.send(A)
    world.coordinator.next_codes = [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION]
    error = world.raised(world.manager.send_offsets({B: 7}, GROUP))
    assert isinstance(error, TransactionAbortable) and error.code is ErrorCode.ILLEGAL_GENERATION
    world.done(world.manager.abort())
    assert world.coordinator.ends == [False] and world.idempotence.epoch == 0


def test_a_producer_that_the_coordinator_has_forgotten_goes_on(world: World) -> None:
    """After transactional.id.expiration.ms there is no transaction to abort, and the producer requests a new id."""
    world.manager.begin()
    world.send(A)
    world.coordinator.next_codes = [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    assert isinstance(world.raised(world.manager.commit()), TransactionAbortable)
    world.done(world.manager.abort())
    assert world.state.state is State.READY and world.idempotence.epoch == 1


def test_an_abort_before_the_coordinator_has_heard_of_anything_is_harmless(world: World) -> None:
    """The coordinator is still writing the markers of the last transaction, which must not be taken for this one."""
    world.manager.begin()
    world.send(A)
    world.done(world.manager.commit())
    world.manager.begin()
    world.coordinator.next_codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    world.state.may_send(A, is_retry=False)
    world.manager.add_new_partitions()
    world.done(world.manager.abort())
    assert world.state.state is State.READY and world.coordinator.ends == [True]


@pytest.mark.parametrize(
    ("code", "offsets"),
    [(ErrorCode.TOPIC_AUTHORIZATION_FAILED, False), (ErrorCode.GROUP_AUTHORIZATION_FAILED, True)],
)
def test_a_producer_that_may_not_write_somewhere_goes_on_elsewhere(
    world: World, code: ErrorCode, offsets: bool
) -> None:
    """The coordinator has no transaction to abort."""
    world.manager.begin()
    world.coordinator.next_codes = [code]
    if offsets:
        assert world.raised(world.manager.send_offsets({B: 7}, GROUP)).code is code
    else:
        world.send(A)
    world.done(world.manager.abort())
    world.manager.begin()
    world.send(B)
    world.done(world.manager.commit())
    assert world.coordinator.ends == [True]


def test_a_time_out_leaves_the_commit_under_way(world: World) -> None:
    """The outcome is unknown; the next call waits for it."""
    world.manager.begin()
    world.send(A)
    world.coordinator.next_codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3500
    assert isinstance(world.raised(world.manager.commit()), KafkaTimeoutError)
    assert world.coordinator.ends == []
    world.done(world.manager.commit())
    assert world.coordinator.ends == [True]


@pytest.mark.parametrize(
    "code", [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
)
def test_a_producer_that_acls_refused_an_id_may_be_initialized_again(
    monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """KAFKA-13668: after the ACL is added, the same producer can be used."""
    world = World(monkeypatch)
    world.coordinator.next_codes = [code, code]
    for _ in range(2):
        error = world.raised(world.manager.initialize())
        assert error.code is code and not isinstance(error, TransactionFatal)
        with pytest.raises(KafkaError) as caught:
            world.manager.begin()
        assert caught.value is error
    world.done(world.manager.initialize())
    world.manager.begin()
    world.send(A)
    world.done(world.manager.commit())
    assert world.coordinator.ends == [True]


def test_a_delayed_abort_does_not_abort_the_next_transaction(world: World) -> None:
    """KAFKA-17754: after a lost response, the next transaction has another epoch."""
    world.manager.begin()
    world.send(A)
    world.coordinator.next_codes = [ErrorCode.NETWORK_EXCEPTION]
    world.done(world.manager.abort())
    world.manager.begin()
    world.send(A)
    world.coordinator.deliver_delayed()
    world.send(B)
    world.done(world.manager.commit())
    assert world.coordinator.ends == [False, True]
    assert world.coordinator.asked.count(ApiKey.INIT_PRODUCER_ID) == 2, "an epoch that nothing can disturb is kept"


def test_a_coordinator_that_cannot_be_reached_costs_no_epoch(world: World) -> None:
    """What was not sent cannot arrive late: the restart of a broker must not make all producers ask for epochs."""
    world.manager.begin()
    world.coordinator.unreachable_count = 3
    world.send(A)
    world.coordinator.unreachable_count = 3
    world.done(world.manager.commit())
    assert world.coordinator.asked == [ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN]


@pytest.mark.parametrize("refusal", [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE])
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_producer_whose_new_epoch_is_refused_has_failed(world: World, is_committed: bool, refusal: ErrorCode) -> None:
    """The transaction has ended, so there is nothing to abort."""
    world.manager.begin()
    world.send(A)
    world.coordinator.next_codes = [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NONE, refusal]
    if is_committed:
        world.done(world.manager.commit())
    else:
        assert isinstance(world.raised(world.manager.abort()), TransactionFatal)
    assert world.coordinator.ends == [is_committed]
    with pytest.raises(TransactionFatal) as caught:
        world.manager.begin()
    assert caught.value.code is refusal


def test_only_the_first_id_may_be_asked_for_without_an_identity() -> None:
    """A broker before 2.5 would take a bump for a new producer, and would fence the successor of an old one."""
    assert requests.init_producer_id("x", -1, -1, 1_000).lowest == 0
    assert requests.init_producer_id("x", 5, 0, 1_000).lowest == 3


@pytest.mark.parametrize("has_timed_out", [False, True])
@pytest.mark.parametrize(
    ("refusal", "then"),
    [
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, KafkaError),
    ],
)
def test_a_commit_succeeds_even_if_the_producer_gets_no_new_epoch_after_it(
    world: World, refusal: ErrorCode, then: type[KafkaError], has_timed_out: bool
) -> None:
    world.manager.begin()
    world.send(A)
    passing = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * (1_000 if has_timed_out else 0)
    world.coordinator.next_codes = [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NONE, *passing, refusal]
    if has_timed_out:
        error = world.raised(world.manager.commit())
        assert isinstance(error, KafkaTimeoutError) and "it is committed, but has no next epoch" in str(error)
        while world.coordinator.next_codes:
            world.clock.advance(0.01)
    world.done(world.manager.commit())
    assert world.coordinator.ends == [True]
    with pytest.raises(then) as caught:
        world.manager.begin()
    assert caught.value.code is refusal


def test_a_commit_succeeds_even_if_the_producer_is_closed_while_it_asks_for_a_new_epoch(world: World) -> None:
    world.manager.begin()
    world.send(A)
    passing = [ErrorCode.CONCURRENT_TRANSACTIONS] * 1_000
    world.coordinator.next_codes = [ErrorCode.NETWORK_EXCEPTION, ErrorCode.NONE, *passing]
    commit = run(world.manager.commit())
    for _ in range(100):
        world.clock.advance(0.01)
    assert world.coordinator.asked[-1] is ApiKey.INIT_PRODUCER_ID
    world.manager.close()
    world.done(commit)
    assert world.coordinator.ends == [True]


def test_a_new_epoch_that_acls_refuse_after_an_abort_is_asked_for_by_the_next_initialization(world: World) -> None:
    """The transaction is aborted; only the producer's next epoch is missing."""
    world.manager.begin()
    world.send(A)
    world.manager.failed(broker_error(ErrorCode.MESSAGE_TOO_LARGE, "producing"))
    world.coordinator.next_codes = [ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    error = world.raised(world.manager.abort())
    assert error.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.state.state is State.UNINITIALIZED and world.coordinator.ends == [False]
    world.done(world.manager.initialize())
    world.manager.begin()
    world.done(world.manager.commit())
    assert world.coordinator.ends == [False], "the previous transaction left nothing in this one"


def test_a_time_out_names_the_last_refusal(world: World) -> None:
    """A coordinator that refuses for a minute must not look like a silent broker."""
    world.manager.begin()
    world.send(A)
    world.coordinator.next_codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3500
    text = str(world.raised(world.manager.commit()))
    assert "no answer within 60000 ms (max.block.ms); last: committing the transaction of x: CONCURRENT_TRANS" in text
    world.done(world.manager.commit())
    world.manager.begin()
    world.coordinator.next_codes.clear()
    world.send(A)
    world.flushed = Deferred()
    text = str(world.raised(world.manager.commit()))
    assert "last" not in text and text.endswith("records are still being sent: call it again")


def test_initialization_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.coordinator.next_codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 601
    assert isinstance(world.raised(world.manager.initialize()), KafkaTimeoutError)
    world.done(world.manager.initialize())
    world.manager.begin()
    other = World(monkeypatch)
    other.coordinator.next_codes = [ErrorCode.INVALID_TRANSACTION_TIMEOUT]
    error = other.raised(other.manager.initialize())
    assert isinstance(error, TransactionFatal) and error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


class _Scripted:
    """A producer that records its calls."""

    def __init__(self, commit_error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self._commit_error = commit_error

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    async def commit_transaction(self) -> None:
        self.calls.append("commit")
        if self._commit_error is not None:
            raise self._commit_error

    async def abort_transaction(self) -> None:
        self.calls.append("abort")


@pytest.mark.parametrize(
    ("in_block", "in_commit", "calls"),
    [
        (None, None, ["begin", "commit"]),
        (ValueError(), None, ["begin", "abort"]),
        (TransactionAbortable(""), None, ["begin", "abort"]),
        (ProducerFenced(""), None, ["begin"]),
        (None, TransactionAbortable(""), ["begin", "commit", "abort"]),
        (None, ProducerFenced(""), ["begin", "commit"]),
        (None, KafkaTimeoutError(""), ["begin", "commit"]),
    ],
)
def test_a_block_commits_or_aborts(in_block: Any, in_commit: Any, calls: list[str]) -> None:
    """The block raises the original error."""
    producer = _Scripted(in_commit)

    async def block() -> None:
        async with TransactionScope(producer):
            if in_block is not None:
                raise in_block

    outcome: list[Any] = []
    run(block()).addBoth(outcome.append)
    assert producer.calls == calls
    error = in_block or in_commit
    assert outcome[0] is None if error is None else outcome[0].value is error


@pytest.mark.parametrize("seed", range(150))
def test_what_was_committed_is_what_the_program_knows(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Random transactions with refusals, moves and lost responses: each ends once, as its program was informed."""
    rng = random.Random(seed)
    world = World(monkeypatch, seed, fault_rate=rng.choice((0.0, 0.2, 0.5)))
    world.done(world.manager.initialize())
    known: dict[TopicPartition, int] = {}
    expected: list[bool] = []
    for number in range(rng.randint(1, 15)):
        world.manager.begin()
        used = [tp for tp in (A, B) if rng.random() < 0.6]
        for tp in used:
            world.send(tp)
            assert tp in world.coordinator.partitions
        offsets = {tp: number for tp in (A, B) if rng.random() < 0.5}
        world.done(world.manager.send_offsets(offsets, GROUP))
        if rng.random() < 0.3:
            world.manager.failed(broker_error(ErrorCode.MESSAGE_TOO_LARGE, "producing"))
        ending: Callable[[], Awaitable[None]] = rng.choice((world.manager.commit, world.manager.abort))
        try:
            world.done(ending())
            is_committed = ending == world.manager.commit
        except TransactionAbortable:
            world.done(world.manager.abort())
            is_committed = False
        if is_committed:
            known.update(offsets)
        if used or offsets:
            expected.append(is_committed)
        assert world.coordinator.committed_offsets == known
        assert not world.coordinator.is_open and world.idempotence.epoch == world.coordinator.epoch
    assert len(world.coordinator.ends) <= len(expected)
    assert [each for each in expected if each] == [each for each in world.coordinator.ends if each]
