"""A partition of ``__transaction_state`` on its leader. Source: TxnMetadataCacheEntry@3.9."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from kafka_zk.broker.transaction.transaction import Transaction


class CoordinatedPartition:
    """A partition that this broker leads, with its transactional ids.

    Attributes:
        epoch: the leader epoch.
        transactions: by transactional id; empty after unloading.
        ongoing: those in state Ongoing.
        is_current: False when another broker may lead; later results must then be ignored.
    """

    def __init__(self, number: int, epoch: int) -> None:
        self.number = number
        self.tp = TopicPartition(TRANSACTION_STATE_TOPIC, number)
        self.epoch = epoch
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, Transaction] = {}
        self.is_current = True
