"""The effects that ``GroupMember.step`` returns, in order. Operations that are pipelined together are one effect."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.delivery import Start
from kafka_zk.rebalance.events import RebalanceEvent
from kafka_zk.rebalance.topics_wanted import TopicsWanted
from kafka_zk.registry.znodes.group_assignment import GroupAssignment


@dataclass(frozen=True, slots=True)
class Register:
    """Create the registration under ``ids``, then start the watches. Result: ``Registered``."""


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """Watch the partitions of exactly these topics. Result: ``PartitionsRead``, now and at every change."""

    wanted: TopicsWanted


@dataclass(frozen=True, slots=True)
class HoldTopics:
    """Watch the czxids of exactly these topics. Result: ``TopicsSeen``, now and at every change."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClaimPartition:
    """Claim partitions for thread ids. Result: ``ClaimSettled``, later ``OwnersGone`` for those that were taken."""

    threads: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class WatchOwners:
    """Watch these owner znodes again after a reconnect. Result: ``OwnersGone`` when one does not exist."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class StopDelivery:
    """Call ``Delivery.stop``. Result: ``DeliveryStopped`` with the same ``stop_id``."""

    stop_id: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Release:
    """Commit the offsets (where not None) and delete the owner znodes. Result: ``ReleaseSettled``."""

    offsets: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class StartDelivery:
    """Call ``Delivery.start``."""

    starts: Mapping[TopicPartition, Start]


@dataclass(frozen=True, slots=True)
class DropDelivery:
    """Call ``Delivery.drop``: these partitions are no longer owned."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class SuspendDelivery:
    """Call ``Delivery.suspend``."""


@dataclass(frozen=True, slots=True)
class ResumeDelivery:
    """Call ``Delivery.resume``."""


@dataclass(frozen=True, slots=True)
class WriteAssignment:
    """Write the assignment if the znode still has this version. Result: ``AssignmentSettled``."""

    assignment: GroupAssignment
    version: int


@dataclass(frozen=True, slots=True)
class ReadOwners:
    """Read the owner znodes of these topics. Result: ``OwnersRead``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send ``TimerFired`` at ``at_ms`` (the clock of ``GroupMember.step``). Replaces a timer of the same
    name."""

    name: str
    at_ms: float


@dataclass(frozen=True, slots=True)
class Note:
    """Report an event to the observers."""

    event: RebalanceEvent


@dataclass(frozen=True, slots=True)
class Unregister:
    """Delete the registration. Result: ``Unregistered``."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The member has left: close the watches and cancel the timers."""


PartitionEffect = (
    ClaimPartition
    | WatchOwners
    | StopDelivery
    | Release
    | StartDelivery
    | DropDelivery
    | SuspendDelivery
    | ResumeDelivery
)
Effect = (
    PartitionEffect
    | Register
    | WatchTopics
    | HoldTopics
    | WriteAssignment
    | ReadOwners
    | SetTimer
    | Note
    | Unregister
    | Finish
)
