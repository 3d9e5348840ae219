"""Failures in a producer's transactions: refused requests, timeouts, and leftovers of the previous transaction."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError
from kafka_zk.clients.connection.waiting import run
from kafka_zk.clients.producer import prepared_transaction, transaction_manager
from kafka_zk.clients.producer.config import ProducerConfig
from kafka_zk.clients.producer.errors import IllegalTransactionState, TransactionAbortable, TransactionAborted
from kafka_zk.clients.producer.producer import Producer
from kafka_zk.clients.producer.producer_record import ProducerRecord
from kafka_zk.clients.producer.transaction_state import Outcome, State, outcome_of
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.clients.connection.fake_cluster import FakeCluster, advance, finish
from tests.kafka_zk.clients.producer.model_coordinator import ModelCoordinator

TP = TopicPartition("t", 0)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> ModelCoordinator:
    made = ModelCoordinator(random.Random(0))
    monkeypatch.setattr(transaction_manager, "KeyCoordinator", lambda *_: made)
    return made


def initialized(clock: Clock, brokers: FakeCluster, **options: Any) -> Producer:
    producer = Producer(
        clock, connect=brokers.connect, bootstrap_servers="b0:9092,b1:9092", transactional_id="x", **options
    )
    finish(clock, run(producer.ready("t")))
    finish(clock, run(producer.init_transactions()))
    return producer


def begun(clock: Clock, brokers: FakeCluster, **options: Any) -> Producer:
    producer = initialized(clock, brokers, **options)
    producer.begin_transaction()
    return producer


def test_a_refused_record_does_not_hold_up_the_abort(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    """Batches behind a refused one stay out of order: they must not be retried until delivery.timeout.ms.

    Java lowers their sequences (TxnPartitionMap.adjustSequencesDueToFailedBatch), so they are written immediately.
    """
    producer = begun(clock, brokers, batch_size=0)
    finish(clock, producer.send("t", b"0", partition=0))
    brokers.errors = [(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)]
    for value in (b"refused", b"behind"):
        producer.send("t", value, partition=0).addErrback(lambda _: None)
    advance(clock, 0.1)
    assert producer._transactions is not None and producer._transactions.state.state is State.ABORTABLE
    finish(clock, run(producer.abort_transaction()), 5)
    producer.begin_transaction()
    producer.send("t", b"again", partition=0)
    finish(clock, run(producer.commit_transaction()), 5)
    assert coordinator.ends == [False, True]


def test_a_refused_record_leaves_the_producer_usable(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    """The documented error is TransactionAbortable. With the defaults, the coordinator aborts the transaction earlier,
    after 60 s.
    """
    producer = initialized(clock, brokers, batch_size=0)

    async def work() -> None:
        async with producer.transaction():
            await producer.send("t", b"0", partition=0)
            brokers.errors = [(ApiKey.PRODUCE, ErrorCode.INVALID_RECORD)]
            for value in (b"refused", b"behind"):
                producer.send("t", value, partition=0).addErrback(lambda _: None)

    outcome: list[Any] = []
    run(work()).addBoth(outcome.append)
    for second in range(200):
        if second == 60 and not outcome:  # transaction.timeout.ms: the coordinator bumps the epoch and aborts
            coordinator.epoch += 1
            coordinator._forget()
            brokers.model._producers[TP, coordinator.producer_id] = (coordinator.epoch, [])
        if outcome:
            break
        advance(clock, 1)
    assert isinstance(outcome[0].value, TransactionAbortable), f"after {second} s: {outcome[0].value!r}"


def test_a_commit_that_ended_after_its_time_limit_may_be_asked_for_again(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    """docs/explanation/exactly-once.md: after KafkaTimeoutError from commit_transaction, call it again."""
    producer = begun(clock, brokers, max_block_ms=1_000)
    producer.send("t", b"v", partition=0)
    coordinator.next_codes = [ErrorCode.NONE] + [ErrorCode.CONCURRENT_TRANSACTIONS] * 60
    with pytest.raises(KafkaTimeoutError):
        finish(clock, run(producer.commit_transaction()), 5)
    advance(clock, 1)  # the program sleeps before it retries
    assert coordinator.ends == [True]
    with pytest.raises(IllegalTransactionState):
        finish(clock, run(producer.abort_transaction()), 5)
    finish(clock, run(producer.commit_transaction()), 5)
    with pytest.raises(IllegalTransactionState):
        finish(clock, run(producer.commit_transaction()), 5)
    producer.begin_transaction()
    finish(clock, run(producer.abort_transaction()), 5)
    with pytest.raises(IllegalTransactionState):
        finish(clock, run(producer.commit_transaction()), 5)


def test_a_commit_that_was_refused_after_its_time_limit_has_not_succeeded_when_it_is_aborted(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    producer = begun(clock, brokers, max_block_ms=1_000)
    producer.send("t", b"v", partition=0)
    refusals = [ErrorCode.CONCURRENT_TRANSACTIONS] * 60 + [ErrorCode.TRANSACTION_ABORTABLE]
    coordinator.next_codes = [ErrorCode.NONE, *refusals]
    with pytest.raises(KafkaTimeoutError):
        finish(clock, run(producer.commit_transaction()), 5)
    advance(clock, 1)
    finish(clock, run(producer.abort_transaction()), 5)
    assert coordinator.ends == [False]
    with pytest.raises(IllegalTransactionState):
        finish(clock, run(producer.commit_transaction()), 5)


def test_an_abort_that_ended_after_its_time_limit_may_be_asked_for_again(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    producer = begun(clock, brokers, max_block_ms=1_000)
    finish(clock, producer.send("t", b"v", partition=0))
    coordinator.next_codes = [ErrorCode.CONCURRENT_TRANSACTIONS] * 60
    with pytest.raises(KafkaTimeoutError):
        finish(clock, run(producer.abort_transaction()), 5)
    advance(clock, 1)
    assert coordinator.ends == [False]
    finish(clock, run(producer.abort_transaction()), 5)


def test_a_commit_ends_after_max_block_ms(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    """The flush inside it may take ``delivery.timeout.ms``."""
    producer = begun(clock, brokers, max_block_ms=1_000)
    brokers.stop(0)
    producer.send("t", b"v", partition=0).addErrback(lambda _: None)
    before_s = clock.seconds()
    with pytest.raises(KafkaTimeoutError, match="commit_transaction"):
        finish(clock, run(producer.commit_transaction()), 10)
    assert clock.seconds() - before_s < 1.2


def test_an_abort_that_the_coordinator_refuses_as_abortable_ends(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    """After TRANSACTION_ABORTABLE in response to EndTxn, a new epoch ends the transaction."""
    producer = begun(clock, brokers, max_block_ms=1_000)
    finish(clock, producer.send("t", b"v", partition=0))
    coordinator.next_codes = [ErrorCode.TRANSACTION_ABORTABLE]
    finish(clock, run(producer.abort_transaction()))
    producer.begin_transaction()


def test_send_all_does_not_go_on_in_the_next_transaction(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    """``gather`` does this: another part of the work fails, the block aborts, and the work is repeated."""
    producer = begun(clock, brokers)
    sending = run(producer.send_all("late", [ProducerRecord(b"old", partition=0)]))  # waits for the topic
    sending.addErrback(lambda _: None)
    advance(clock, 0.5)
    finish(clock, run(producer.abort_transaction()))
    producer.begin_transaction()
    finish(clock, producer.send("t", b"new", partition=1))
    brokers.leaders["late"] = [0]
    advance(clock, 1)
    finish(clock, run(producer.commit_transaction()))
    assert coordinator.ends == [True]
    assert TopicPartition("late", 0) not in brokers.model.logs, "a record of the aborted transaction was committed"


def test_send_all_that_waits_for_a_partition_does_not_go_on_in_the_next_transaction(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    producer = begun(clock, brokers)
    sending = run(producer.send_all("t", [ProducerRecord(b"old", partition=3)]))
    advance(clock, 0.5)
    finish(clock, run(producer.abort_transaction()))
    producer.begin_transaction()
    brokers.leaders["t"].append(0)
    with pytest.raises(TransactionAborted):
        finish(clock, sending, 5)
    finish(clock, run(producer.commit_transaction()))
    assert TopicPartition("t", 3) not in brokers.model.logs


@pytest.mark.parametrize("is_first", [False, True])
def test_partitions_that_were_not_attempted_wait_for_the_one_that_is_not_there_yet(is_first: bool) -> None:
    """A broker that does not know a new topic yet responds with UNKNOWN_TOPIC_OR_PARTITION for it, and with
    OPERATION_NOT_ATTEMPTED for all others, in any order (KafkaApis.handleAddPartitionsToTxnRequest). Java retries.
    """
    codes = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED]
    decisive = transaction_manager._decisive(reversed(codes) if is_first else codes)
    assert outcome_of(decisive) is Outcome.RETRY


@pytest.mark.parametrize("is_committed", [False, True])
def test_an_abort_of_several_goes_on_behind_one_that_cannot_be_aborted(
    clock: Clock, brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """With Spark, a job's commit may fail in the middle, after which Spark aborts. The remaining transactions would
    block readers for 15 minutes. A commit ends at the first failure, so that the rest can still be aborted.
    """
    asked = []

    class Coordinator:
        def __init__(self, *given: Any) -> None:
            self._id = given[3]

        async def ask(self, api_key: ApiKey, message: Any, lowest: int, highest: int) -> Any:
            asked.append(self._id)
            code = ErrorCode.INVALID_TXN_STATE if self._id == "committed already" else ErrorCode.NONE
            return SimpleNamespace(error_code=code)

    monkeypatch.setattr(prepared_transaction, "KeyCoordinator", Coordinator)
    prepared = [prepared_transaction.PreparedTransaction(name, 1, 0) for name in ("committed already", "open")]
    config = ProducerConfig(bootstrap_servers="b0:9092")
    with pytest.raises(KafkaError):
        finish(clock, run(prepared_transaction.end_transactions(clock, config, prepared, is_committed=is_committed)))
    assert asked == (["committed already"] if is_committed else ["committed already", "open"])


def test_nothing_is_added_to_a_transaction_that_is_prepared(
    clock: Clock, brokers: FakeCluster, coordinator: ModelCoordinator
) -> None:
    """The caller that ends the transaction relies on all of its records."""
    producer = begun(clock, brokers)
    finish(clock, producer.send("t", b"v", partition=0))
    prepared = finish(clock, run(producer.prepare_transaction()))
    assert prepared is not None and prepared.transactional_id == "x"
    with pytest.raises(IllegalTransactionState, match="prepared"):
        finish(clock, producer.send("t", b"w", partition=0))
    with pytest.raises(IllegalTransactionState, match="prepared"):
        finish(clock, run(producer.send_offsets({TP: 7}, "g")))
    with pytest.raises(IllegalTransactionState, match="prepared"):
        finish(clock, run(producer.commit_transaction()))
    assert finish(clock, run(producer.prepare_transaction())) == prepared
    finish(clock, run(producer.abort_transaction()))
    with pytest.raises(IllegalTransactionState, match="no transaction has begun"):
        finish(clock, producer.send("t", b"w", partition=0))
    producer.begin_transaction()
    finish(clock, producer.send("t", b"w", partition=0))
