"""The last epoch of a producer id: the next producer of the transactional id gets another one (KIP-98, KIP-360).

Source: TransactionMetadata.isProducerEpochExhausted, TransactionCoordinator.prepareInitProducerIdTransit@3.9.
"""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.transaction.metadata import LAST_EPOCH, NO_PARTITIONS, TransactionMetadata
from kafka_zk.broker.transaction.requests import Answer, Append, ProducerIdAndEpoch, Result, SendMarkers
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.broker.transaction.transaction import Transaction
from kafka_zk.protocol.errors import ErrorCode

OLD, NEW = 7, 8
"""Producer ids."""
TPS = frozenset({TopicPartition("t", 0)})
REPLY = Reply(1)


def known(epoch: int, state: TransactionState = TransactionState.EMPTY) -> Transaction:
    """A transactional id whose producer has this epoch."""
    tps = TPS if state is TransactionState.ONGOING else NO_PARTITIONS
    return Transaction("x", TransactionMetadata(OLD, epoch, 60_000, state, tps, 0, 0))


def carried_out(transaction: Transaction, effects: list[Any]) -> list[Any]:
    """The results and the markers; every append succeeds."""
    found = []
    for effect in effects:
        if isinstance(effect, Append):
            found += carried_out(transaction, transaction.appended(ErrorCode.NONE, 0))
        elif isinstance(effect, Answer):
            found.append(effect.result)
        else:
            found.append(effect)
    return found


def init(transaction: Transaction, expected: ProducerIdAndEpoch | None = None) -> list[Any]:
    new_id = NEW if transaction.needs_producer_id else None
    return carried_out(transaction, transaction.init_producer_id(REPLY, 60_000, expected, new_id, 0))


def is_now(producer_id: int, epoch: int) -> list[Any]:
    return [Result(ErrorCode.NONE, ProducerIdAndEpoch(producer_id, epoch))]


def test_the_last_epoch_is_given_out() -> None:
    transaction = known(LAST_EPOCH - 1)
    assert not transaction.needs_producer_id
    assert init(transaction) == is_now(OLD, LAST_EPOCH)


def test_after_it_the_next_producer_has_another_id() -> None:
    transaction = known(LAST_EPOCH)
    assert init(transaction) == is_now(NEW, 0)
    late = transaction.add_partitions(REPLY, ProducerIdAndEpoch(OLD, LAST_EPOCH), TPS, 0)
    assert carried_out(transaction, late) == [Result(ErrorCode.INVALID_PRODUCER_ID_MAPPING)]


def test_a_producer_that_goes_on_has_another_id_also_if_it_asks_twice() -> None:
    transaction, itself = known(LAST_EPOCH), ProducerIdAndEpoch(OLD, LAST_EPOCH)
    assert init(transaction, itself) == is_now(NEW, 0)
    assert init(transaction, itself) == is_now(NEW, 0)
    assert init(transaction, ProducerIdAndEpoch(NEW, 0)) == is_now(NEW, 1)
    assert init(transaction, itself) == [Result(ErrorCode.PRODUCER_FENCED)]


@pytest.mark.parametrize("epoch", [LAST_EPOCH - 1, 0])
def test_one_with_an_older_epoch_does_not(epoch: int) -> None:
    assert init(known(LAST_EPOCH), ProducerIdAndEpoch(OLD, epoch)) == [Result(ErrorCode.PRODUCER_FENCED)]


def test_what_the_last_epoch_left_open_is_aborted_in_one_that_no_producer_has() -> None:
    transaction = known(LAST_EPOCH, TransactionState.ONGOING)
    told, markers = init(transaction)
    assert told == Result(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert markers == SendMarkers(ProducerIdAndEpoch(OLD, LAST_EPOCH + 1), False, TPS)
    assert carried_out(transaction, transaction.markers_written(TPS, 0)) == []
    assert transaction.metadata.state is TransactionState.COMPLETE_ABORT
    assert init(transaction) == is_now(NEW, 0)
