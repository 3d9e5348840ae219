"""Which states partitions and replicas can be in, and every legal change: one table each.

The tables name for each state those from which it may be entered. Everything else is illegal and raises; what a legal
change causes is in ``partition_state`` and ``replica_state``.

Source: PartitionStateMachine.scala and ReplicaStateMachine.scala@3.9.
"""

import enum
from collections.abc import Mapping


class IllegalStateChange(Exception):
    """A change of state that its table does not allow; nothing was changed."""


class PartitionState(enum.Enum):
    """A partition as the controller sees it."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"  # assigned, without leader and ISR so far
    ONLINE = "OnlinePartition"  # a leader was elected
    OFFLINE = "OfflinePartition"  # its leader is gone


class ReplicaState(enum.Enum):
    """One replica of a partition as the controller sees it."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"  # can only be told to follow
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"  # its broker or its log directory is gone, or it was told to stop
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"  # deletion failed or must wait


PARTITION_TRANSITIONS: Mapping[PartitionState, frozenset[PartitionState]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.OFFLINE: frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}
"""New state -> the states it may be entered from."""

_STOPPABLE = frozenset({ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.DELETION_INELIGIBLE})

REPLICA_TRANSITIONS: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _STOPPABLE,
    ReplicaState.OFFLINE: _STOPPABLE,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset({ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}
"""New state -> the states it may be entered from."""
