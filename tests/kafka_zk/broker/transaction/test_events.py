"""Events that observers receive about transactions."""

from collections.abc import Iterator

from kafka_zk.base.events import Event, EventSource, ignore
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.transaction.events import TransactionChanged, TransactionReporter
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.broker.transaction.transaction import Transaction

NOW_MS = 1_700_000_000_000


def test_a_change_is_told_with_who_and_where() -> None:
    told: list[Event] = []
    transaction = Transaction.new("x", 7, 60_000, NOW_MS)
    tps = frozenset({TopicPartition("t", 1), TopicPartition("t", 0)})
    transaction.metadata = transaction.metadata._replace(state=TransactionState.ONGOING, producer_epoch=3, tps=tps)
    TransactionReporter(EventSource("broker-1", told.append, lambda: NOW_MS)).report(transaction)
    assert told == [
        TransactionChanged(
            NOW_MS, "broker-1", "AddPartitionsToTxn", 0, "x", 7, 3, TransactionState.ONGOING, tuple(sorted(tps))
        )
    ]


def test_without_an_observer_no_event_is_built() -> None:
    """Sorting the partitions of a large transaction costs time."""

    class Unread(frozenset[TopicPartition]):
        def __iter__(self) -> Iterator[TopicPartition]:
            raise AssertionError("the partitions were read")

    transaction = Transaction.new("x", 7, 1, NOW_MS)
    transaction.metadata = transaction.metadata._replace(tps=Unread())
    TransactionReporter(EventSource("broker-1", ignore, lambda: NOW_MS)).report(transaction)
