"""The in-sync replicas as a partition's leader knows them: the committed ISR and a proposed change.

Until the controller has written a change and responds, both ISRs count: the high watermark waits for the replicas that
join and for those that leave (KIP-497). There is at most one change at a time:

    Committed      --expand, shrink-->  Pending
    Pending        --written-->         Committed, with the controller's response
    Pending        --certainly not written (55, 107)-->  the previous Committed
    Pending        --given up (3, 42, 74, 95, 100, 108)-->  Pending, until the next LeaderAndIsr
    Pending        --any other error-->  Pending, and the request is repeated
    any            --LeaderAndIsr of a new leader epoch-->  Committed

Pure. Source: CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr and handleAlterPartitionError in
Partition.scala@3.9.
"""

import enum
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from kafka_zk.protocol.errors import ErrorCode


class Committed(NamedTuple):
    """The ISR that the controller wrote last. ``isr``: in the controller's order, with the leader."""

    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """All replicas that may be in sync; each of them has all committed records."""
        return self.isr

    def expand(self, broker_id: int) -> "Pending":
        """Propose a follower that has caught up, as the last member."""
        assert broker_id not in self.isr
        return Pending(self, (*self.isr, broker_id))

    def shrink(self, out_of_sync: Iterable[int]) -> "Pending":
        """Propose to remove followers that lag."""
        gone = set(out_of_sync)
        return Pending(self, tuple(member for member in self.isr if member not in gone))


class Pending(NamedTuple):
    """A proposed change without a final response.

    ``committed``: the state before the proposal. ``proposed``: the new ISR, larger or smaller.
    """

    committed: Committed
    proposed: tuple[int, ...]

    @property
    def isr(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.proposed if len(self.proposed) > len(self.committed.isr) else self.committed.isr


IsrState: TypeAlias = Committed | Pending


class Ending(enum.Enum):
    """The meaning of the controller's error code for a change."""

    REVERTED = "reverted"  # the change was not written and will not be
    GIVEN_UP = "given up"  # whether it was written is unknown until the next LeaderAndIsr
    RETRIED = "retried"


_ENDINGS = {
    ErrorCode.OPERATION_NOT_ATTEMPTED: Ending.REVERTED,
    ErrorCode.INELIGIBLE_REPLICA: Ending.REVERTED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Ending.GIVEN_UP,
    ErrorCode.UNKNOWN_TOPIC_ID: Ending.GIVEN_UP,
    ErrorCode.FENCED_LEADER_EPOCH: Ending.GIVEN_UP,
    ErrorCode.INVALID_UPDATE_VERSION: Ending.GIVEN_UP,
    ErrorCode.INVALID_REQUEST: Ending.GIVEN_UP,
    ErrorCode.NEW_LEADER_ELECTED: Ending.GIVEN_UP,
}


def ending_of(code: int) -> Ending:
    """The meaning of a partition's error code in an AlterPartition response."""
    return _ENDINGS.get(ErrorCode.of(code), Ending.RETRIED)


class WrittenIsr(NamedTuple):
    """The controller's successful response for a partition."""

    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


def is_current(written: WrittenIsr, leader_epoch: int, partition_epoch: int) -> bool:
    """True if a leader with these epochs may adopt the response. If the partition epochs are equal, no write was
    needed."""
    return written.leader_epoch == leader_epoch and written.partition_epoch >= partition_epoch
