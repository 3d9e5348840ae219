"""What a follower takes from remote storage instead of the records there. ``broker.tiered`` reads it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Partition


class RemoteState(NamedTuple):
    """Continue the log at ``start_offset``. ``leader_epochs``: (epoch, start offset) of all epochs before.
    ``snapshot``: the producers there; None: unknown."""

    start_offset: int
    leader_epochs: Sequence[tuple[int, int]]
    snapshot: bytes | None


class RemoteStateUnavailable(Exception):
    """Remote storage, or its metadata, do not answer now. Ask again later."""


class Leader(Protocol):
    """The methods of ``LeaderEndPoint`` that are used."""

    async def earliest_local(self, tp: TopicPartition, leader_epoch: int) -> tuple[int, int]: ...

    async def epoch_end(self, tp: TopicPartition, leader_epoch: int, epoch: int) -> tuple[int, int]: ...


class RemoteStateReader(Protocol):
    async def read(self, partition: Partition, leader_epoch: int, leader: Leader) -> RemoteState:
        """Where a follower begins, whose leader has the next records in remote storage only.

        Raises: RemoteStateUnavailable; ApiError and the connection's errors, from the leader.
        """
