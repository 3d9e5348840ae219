"""The in-sync replicas of a partition as its leader sees them: what is committed, and what it has asked for.

A change counts when the controller has written it. Until it says so the leader does not know whether it has, so it goes
by both: what is being added already holds back the high watermark, what is being removed still does (KIP-497). There is
one change at a time:

    Committed      --expand, shrink-->  Pending
    Pending        --written-->         Committed, as the controller answered
    Pending        --refused for certain (55, 107)-->  the Committed of before
    Pending        --given up (3, 42, 74, 95, 100)-->  Pending, until the next LeaderAndIsr
    Pending        --anything else-->   Pending, asked for again
    any            --LeaderAndIsr of a new leader epoch-->  Committed

Pure. Source: CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr and handleAlterPartitionError in
Partition.scala@3.9. Tests: tests/kafka_zk/broker/replica/test_isr_state.py.
"""

import enum
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from kafka_zk.protocol.errors import ErrorCode


class Committed(NamedTuple):
    """What the controller has written last; in its order."""

    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Everybody who may be in sync by what the controller knows: all of them have what is committed."""
        return self.isr

    def expand(self, broker_id: int) -> "Pending":
        """Ask for a follower that has caught up, behind the others."""
        assert broker_id not in self.isr
        return Pending(self, (*self.isr, broker_id))

    def shrink(self, out_of_sync: Iterable[int]) -> "Pending":
        """Ask for the removal of followers that lag."""
        gone = set(out_of_sync)
        return Pending(self, tuple(member for member in self.isr if member not in gone))


class Pending(NamedTuple):
    """``proposed`` was asked for; ``committed`` is what held before."""

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
    """What the controller's error code means for a change."""

    REVERTED = "reverted"  # it was not written and will not be
    GIVEN_UP = "given up"  # whether it was written nobody knows: the next LeaderAndIsr tells
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
    """For an error code of one partition in AlterPartition's answer."""
    return _ENDINGS.get(ErrorCode.of(code), Ending.RETRIED)


class WrittenIsr(NamedTuple):
    """What the controller answered of a partition without an error."""

    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


def is_current(written: WrittenIsr, leader_epoch: int, partition_epoch: int) -> bool:
    """Whether an answer may be taken over by a leader with these epochs; the same partition epoch means that nothing
    had to be written."""
    return written.leader_epoch == leader_epoch and written.partition_epoch >= partition_epoch
