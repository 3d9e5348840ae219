"""What ``GroupMember.step`` asks of its driver, in order. What belongs together is one effect, to be pipelined."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.delivery import Start
from kafka_zk.rebalance.events import RebalanceEvent
from kafka_zk.rebalance.topics_wanted import TopicsWanted
from kafka_zk.registry.znodes.group_assignment import GroupAssignment


@dataclass(frozen=True, slots=True)
class Register:
    """Put the registration under ``ids``; then ``Registered``, and the watches."""


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """Watch the partitions of these topics and no others; ``PartitionsRead`` now and at every change."""

    wanted: TopicsWanted


@dataclass(frozen=True, slots=True)
class HoldTopics:
    """Watch which topics these are, and no others; ``TopicsSeen`` now and at every change."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClaimPartition:
    """Claim these for the given thread ids; then ``ClaimSettled``, and ``OwnersGone`` of those that were taken."""

    threads: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class WatchOwners:
    """Watch these owner znodes, after a reconnect; ``OwnersGone`` when one is not there (any more)."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class StopDelivery:
    """``Delivery.stop``; then ``DeliveryStopped`` with the same ``stop_id``."""

    stop_id: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Release:
    """Commit the offsets (where not None) and delete the owner znodes; then ``ReleaseSettled``."""

    offsets: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class StartDelivery:
    """``Delivery.start``."""

    starts: Mapping[TopicPartition, Start]


@dataclass(frozen=True, slots=True)
class DropDelivery:
    """``Delivery.drop``: these are not owned any more."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class SuspendDelivery:
    """``Delivery.suspend``."""


@dataclass(frozen=True, slots=True)
class ResumeDelivery:
    """``Delivery.resume``."""


@dataclass(frozen=True, slots=True)
class WriteAssignment:
    """Write it if the znode still has that version; then ``AssignmentSettled``."""

    assignment: GroupAssignment
    version: int


@dataclass(frozen=True, slots=True)
class ReadOwners:
    """Read the owner znodes of these topics; then ``OwnersRead``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class SetTimer:
    """``TimerFired`` at that time (ms, the clock of ``step``); a timer of the same name is replaced."""

    name: str
    at_ms: float


@dataclass(frozen=True, slots=True)
class Note:
    """Tell the observers."""

    event: RebalanceEvent


@dataclass(frozen=True, slots=True)
class Unregister:
    """Remove the registration; then ``Unregistered``."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The member has left: close the watches, cancel the timers."""


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
