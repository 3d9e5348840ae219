"""A transaction's coordinator is asked whether it knows of a partition before the first batch is appended (KIP-890).

From when it is asked until the first batch, or a marker, is appended there is a VerificationStateEntry. The entry
itself shows with the append that it was asked for this transaction: a marker that comes in between removes it, so that
an answer which is late by then does not let a batch in.

The lowest sequence that was refused meanwhile is remembered, so that no later batch overtakes it. Source:
VerificationStateEntry.java, VerificationGuard.java@3.9. Tests: tests/storage/log/test_producer_state.py.
"""

from collections.abc import Mapping
from typing import TypeAlias

from kafka_zk.base.types import TopicPartition


class VerificationStateEntry:
    """One producer's; ``timestamp_ms`` is when it was first asked for."""

    __slots__ = ("lowest_sequence", "producer_epoch", "timestamp_ms")

    def __init__(self, timestamp_ms: int, sequence: int, producer_epoch: int) -> None:
        self.timestamp_ms = timestamp_ms
        self.lowest_sequence = sequence
        self.producer_epoch = producer_epoch

    def meet(self, sequence: int, producer_epoch: int) -> None:
        """Another batch needs to be verified."""
        if producer_epoch > self.producer_epoch or (
            producer_epoch == self.producer_epoch and sequence < self.lowest_sequence
        ):
            self.producer_epoch = producer_epoch
            self.lowest_sequence = sequence


UNVERIFIED = VerificationStateEntry(-1, -1, -1)
"""Comes with an append that nobody has verified: good only for a transaction that is open already."""

NOT_ALLOWED = VerificationStateEntry(-1, -1, -1)
"""Comes with an append of somebody who has no transaction."""

Guards: TypeAlias = Mapping[TopicPartition, VerificationStateEntry | None]
"""What comes with the appends of a transaction, by partition; None where it need not be verified."""
