"""The state that a follower reads from remote storage instead of the records there. ``broker.tiered`` reads it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Partition


class RemoteState(NamedTuple):
    """Continue the log at ``start_offset``. ``leader_epochs``: (epoch, start offset) of all earlier epochs.
    ``snapshot``: the producers' state at that offset; None: unknown."""

    start_offset: int
    leader_epochs: Sequence[tuple[int, int]]
    snapshot: bytes | None


class RemoteStateUnavailable(Exception):
    """Remote storage or its metadata is unavailable now. Ask again later."""


class Leader(Protocol):
    """The methods of ``LeaderEndPoint`` that are used."""

    async def earliest_local(self, tp: TopicPartition, leader_epoch: int) -> tuple[int, int]: ...

    async def epoch_end(self, tp: TopicPartition, leader_epoch: int, epoch: int) -> tuple[int, int]: ...


class RemoteStateReader(Protocol):
    async def read(self, partition: Partition, leader_epoch: int, leader: Leader) -> RemoteState:
        """Read the state with which a follower begins if its leader has the next records only in remote storage.

        Raises: RemoteStateUnavailable; ApiError and the connection's errors, from the leader.
        """
