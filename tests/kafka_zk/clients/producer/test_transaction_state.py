"""The states of a producer's transactions."""

import random

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError, broker_error
from kafka_zk.clients.producer.errors import (
    IllegalTransactionState,
    ProducerFenced,
    TransactionAbortable,
    TransactionFatal,
)
from kafka_zk.clients.producer.transaction_state import FOLLOWING, Outcome, State, TransactionState, outcome_of
from kafka_zk.protocol.errors import ErrorCode

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def failure(code: ErrorCode) -> KafkaError:
    return broker_error(code, "testing")


def ready() -> TransactionState:
    state = TransactionState()
    state.begin_initialization()
    state.initialized()
    return state


def begun() -> TransactionState:
    state = ready()
    state.begin()
    return state


def test_a_partition_is_added_before_its_first_batch() -> None:
    """One request adds all partitions that wait; none is added twice."""
    state = begun()
    assert not state.may_send(A, is_retry=False)
    assert state.take_new() == [A]
    assert not state.may_send(A, is_retry=False) and not state.may_send(B, is_retry=False)
    assert state.take_new() == [], "the first partition is being added"
    state.added([A])
    assert state.may_send(A, is_retry=False)
    assert state.take_new() == [B]
    state.added([B])
    state.begin_commit()
    assert state.may_send(A, is_retry=False), "records from before the commit are still sent"
    state.ended()
    state.begin()
    assert not state.may_send(A, is_retry=False), "each transaction has its own partitions"


def test_an_empty_transaction_needs_no_coordinator() -> None:
    state = begun()
    assert [state.has_something] == [False]
    state.offsets_asked("g", [A])
    assert state.has_something
    state.offsets_sent("g", [A])
    state.begin_commit()
    state.ended()
    assert not state.has_something


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, TransactionAbortable),
        (ErrorCode.ILLEGAL_GENERATION, TransactionAbortable),
        (ErrorCode.UNKNOWN_PRODUCER_ID, TransactionAbortable),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced),
        (ErrorCode.PRODUCER_FENCED, ProducerFenced),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TransactionFatal),
        (ErrorCode.INVALID_TXN_STATE, TransactionFatal),
        (ErrorCode.UNKNOWN_SERVER_ERROR, TransactionFatal),
    ],
)
def test_applications_can_tell_errors_apart(code: ErrorCode, raised: type[KafkaError]) -> None:
    """The classes mean: abort and continue; another producer took over; the error is final."""
    state = begun()
    state.fail(outcome_of(code), failure(code))
    with pytest.raises(raised):
        state.begin_commit()
    assert type(state.error) is raised
    if raised is TransactionAbortable:
        state.begin_abort()
        state.ended()
        state.begin()
    else:
        with pytest.raises(raised):
            state.begin_abort()
        with pytest.raises(raised):
            state.begin()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NETWORK_EXCEPTION,
    ],
)
def test_what_passes_is_asked_again(code: ErrorCode) -> None:
    assert outcome_of(code) is Outcome.RETRY


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_for(code: ErrorCode) -> None:
    assert outcome_of(code) is Outcome.FIND_AND_RETRY


def test_a_failed_batch_needs_a_new_epoch_after_the_abort() -> None:
    """The batch's sequences may be missing in the log (KIP-360)."""
    state = begun()
    state.batch_failed(failure(ErrorCode.MESSAGE_TOO_LARGE))
    assert state.state is State.ABORTABLE and state.needs_epoch_bump
    state.begin_abort()
    state.epoch_bumped()
    state.ended()
    assert not state.needs_epoch_bump


def test_only_retries_are_sent_once_the_transaction_has_failed() -> None:
    """New records would be wasted; a gap in the sequences would cost an epoch."""
    state = begun()
    state.may_send(A, is_retry=False)
    state.added(state.take_new())
    state.fail(Outcome.ABORTABLE, failure(ErrorCode.TRANSACTION_ABORTABLE))
    assert not state.may_send(A, is_retry=False) and state.may_send(A, is_retry=True)
    state.begin_abort()
    assert not state.may_send(A, is_retry=False) and state.may_send(A, is_retry=True)


def test_calls_in_a_wrong_order_change_nothing() -> None:
    state = TransactionState()
    for call in (state.begin, state.begin_commit, state.begin_abort, state.check_in_transaction):
        with pytest.raises(IllegalTransactionState, match="init_transactions"):
            call()
    state = ready()
    for call in (state.begin_commit, state.begin_abort):
        with pytest.raises(IllegalTransactionState, match="no transaction has begun"):
            call()
    with pytest.raises(IllegalTransactionState, match="already"):
        state.begin_initialization()
    state.begin()
    with pytest.raises(IllegalTransactionState, match="already begun"):
        state.begin()
    assert state.state is State.IN_TRANSACTION


@pytest.mark.parametrize("seed", range(200))
def test_random_calls_and_answers_make_legal_changes_only(seed: int) -> None:
    """In any order, a call is either refused or makes a change in the table; a fatal error is final."""
    rng = random.Random(seed)
    state = TransactionState()
    fatal: KafkaError | None = None
    for _ in range(60):
        before = state.state
        calls = [state.begin_initialization, state.begin, state.begin_commit, state.begin_abort]
        roll = rng.random()
        try:
            if roll < 0.5:
                rng.choice(calls)()
            elif roll < 0.6 and before is State.INITIALIZING:
                rng.choice([state.initialized, state.initialization_failed])()
            elif roll < 0.6 and before is State.ABORTING:
                state.id_refused(failure(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            elif roll < 0.75 and before in (State.COMMITTING, State.ABORTING):
                state.ended()
            elif roll < 0.9:
                state.may_send(rng.choice((A, B)), is_retry=rng.random() < 0.3)
                state.added(state.take_new())
            else:
                state.fail(rng.choice([Outcome.ABORTABLE, Outcome.BUMP, Outcome.FENCED, Outcome.FATAL]),
                           failure(ErrorCode.UNKNOWN_SERVER_ERROR))  # fmt: skip
        except KafkaError as error:
            assert state.state is before
            assert fatal is None or error is fatal
        assert state.state is before or state.state in FOLLOWING[before]
        if state.state is not State.UNINITIALIZED:
            assert (state.error is not None) == (state.state in (State.ABORTABLE, State.FATAL))
        fatal = state.error if state.state is State.FATAL else None
