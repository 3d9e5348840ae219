"""A transaction's verification before its first batch is appended (KIP-890).

A VerificationStateEntry exists from the request to the coordinator until a marker or the first batch, whose append
passes the entry as proof. After a marker, a late confirmation has no effect. The entry contains the lowest rejected
sequence, so that no later batch is appended before that one.
Source: VerificationStateEntry.java, VerificationGuard.java@3.9. Tests: tests/storage/log/test_producer_state.py.
"""

from collections.abc import Mapping
from typing import TypeAlias

from kafka_zk.base.types import TopicPartition


class VerificationStateEntry:
    """The verification of one producer. ``timestamp_ms``: when it began."""

    __slots__ = ("lowest_sequence", "producer_epoch", "timestamp_ms")

    def __init__(self, timestamp_ms: int, sequence: int, producer_epoch: int) -> None:
        self.timestamp_ms = timestamp_ms
        self.lowest_sequence = sequence
        self.producer_epoch = producer_epoch

    def update_lowest_sequence(self, sequence: int, producer_epoch: int) -> None:
        """Add another batch that waits for the verification."""
        if producer_epoch > self.producer_epoch or (
            producer_epoch == self.producer_epoch and sequence < self.lowest_sequence
        ):
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence


UNVERIFIED = VerificationStateEntry(-1, -1, -1)
"""Guard for an append without verification, which is valid only if the transaction is already open."""

NOT_ALLOWED = VerificationStateEntry(-1, -1, -1)
"""Guard for a client's append without a transaction."""

Guards: TypeAlias = Mapping[TopicPartition, VerificationStateEntry | None]
"""The guards for a transaction's appends; None: no verification needed."""
