"""A partition of ``__transaction_state`` as its leader knows it. Source: TxnMetadataCacheEntry@3.9."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.broker.transaction.transaction import Transaction


class CoordinatedPartition:
    """A partition of ``__transaction_state`` that this broker leads in ``epoch``, with its transactional ids.

    ``ongoing``: those with an open transaction. ``is_current`` is False once another broker may lead the partition:
    whatever still comes in for these transactions counts for nothing.
    """

    def __init__(self, number: int, epoch: int) -> None:
        self.number = number
        self.tp = TopicPartition(TRANSACTION_STATE_TOPIC, number)
        self.epoch = epoch
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        self.is_current = True
