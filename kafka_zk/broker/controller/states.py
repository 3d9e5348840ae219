"""States of partitions and replicas, with their transition tables.

Each event leads to one state, its ``target``. ``partition_state`` and ``replica_state`` define the effects of a change.

Source: PartitionStateMachine.scala and ReplicaStateMachine.scala@3.9.
"""

import enum
from collections.abc import Mapping


class PartitionState(enum.Enum):
    """State of a partition as the controller knows it."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"  # never had a leader
    ONLINE = "OnlinePartition"  # has a leader
    OFFLINE = "OfflinePartition"  # its leader is gone


class ReplicaState(enum.Enum):
    """State of a replica as the controller knows it."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"  # can only become a follower
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"  # broker or log directory gone, or stopped
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"  # failed or must wait


class PartitionEvent(enum.Enum):
    """An action of the controller on a partition."""

    CREATE = "create"
    BRING_ONLINE = "bring online"
    TAKE_OFFLINE = "take offline"
    DELETE = "delete"

    @property
    def target(self) -> PartitionState:
        return next(iter(PARTITION_TRANSITIONS[self].values()))


class ReplicaEvent(enum.Enum):
    """An action of the controller on a replica."""

    CREATE = "create"
    BRING_ONLINE = "bring online"
    TAKE_OFFLINE = "take offline"
    START_DELETION = "start deletion"
    COMPLETE_DELETION = "complete deletion"
    DEFER_DELETION = "defer deletion"
    FORGET = "forget"

    @property
    def target(self) -> ReplicaState:
        return next(iter(REPLICA_TRANSITIONS[self].values()))


PARTITION_TRANSITIONS: Mapping[PartitionEvent, Mapping[PartitionState, PartitionState]] = {
    PartitionEvent.CREATE: {PartitionState.NON_EXISTENT: PartitionState.NEW},
    PartitionEvent.BRING_ONLINE: {
        PartitionState.NEW: PartitionState.ONLINE,
        PartitionState.ONLINE: PartitionState.ONLINE,
        PartitionState.OFFLINE: PartitionState.ONLINE,
    },
    PartitionEvent.TAKE_OFFLINE: {
        PartitionState.NEW: PartitionState.OFFLINE,
        PartitionState.ONLINE: PartitionState.OFFLINE,
        PartitionState.OFFLINE: PartitionState.OFFLINE,
    },
    PartitionEvent.DELETE: {PartitionState.OFFLINE: PartitionState.NON_EXISTENT},
}
"""Event -> state before -> state after. A missing transition is illegal."""

REPLICA_TRANSITIONS: Mapping[ReplicaEvent, Mapping[ReplicaState, ReplicaState]] = {
    ReplicaEvent.CREATE: {ReplicaState.NON_EXISTENT: ReplicaState.NEW},
    ReplicaEvent.BRING_ONLINE: {
        ReplicaState.NEW: ReplicaState.ONLINE,
        ReplicaState.ONLINE: ReplicaState.ONLINE,
        ReplicaState.OFFLINE: ReplicaState.ONLINE,
        ReplicaState.DELETION_INELIGIBLE: ReplicaState.ONLINE,
    },
    ReplicaEvent.TAKE_OFFLINE: {
        ReplicaState.NEW: ReplicaState.OFFLINE,
        ReplicaState.ONLINE: ReplicaState.OFFLINE,
        ReplicaState.OFFLINE: ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE: ReplicaState.OFFLINE,
    },
    ReplicaEvent.START_DELETION: {ReplicaState.OFFLINE: ReplicaState.DELETION_STARTED},
    ReplicaEvent.COMPLETE_DELETION: {ReplicaState.DELETION_STARTED: ReplicaState.DELETION_SUCCESSFUL},
    ReplicaEvent.DEFER_DELETION: {
        ReplicaState.OFFLINE: ReplicaState.DELETION_INELIGIBLE,
        ReplicaState.DELETION_STARTED: ReplicaState.DELETION_INELIGIBLE,
    },
    ReplicaEvent.FORGET: {ReplicaState.DELETION_SUCCESSFUL: ReplicaState.NON_EXISTENT},
}
"""Event -> state before -> state after. A missing transition is illegal."""
