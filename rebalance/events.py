"""What a member of a group did and saw, for observers (``kafka-zk watch``, flight recorder, tests' checker).

Every event has the wall-clock time in ms since the epoch, the actor (the consumer id), the cause in a few words, and
the zxid of the change behind it (0 where there is none or it is not known). In the order of one rebalance:
``StrategyChosen`` (only when it changed), ``RebalanceStarted``, ``DeliveryStopped``, ``Released``, ``Claimed`` or
``ClaimWaits``, ``DeliveryStarted``, ``RebalanceFinished``. What happens to many partitions together is one event.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition


@dataclass(frozen=True, slots=True)
class RebalanceEvent(Event):
    """Base of all."""


@dataclass(frozen=True, slots=True)
class MemberRegistered(RebalanceEvent):
    """This member stands under ``ids`` (``zxid``: its czxid); it owns nothing yet in this session."""

    session_id: int


@dataclass(frozen=True, slots=True)
class StrategyChosen(RebalanceEvent):
    """The group's strategy, as this member sees it, changed; ``cause`` says why. ``warning``: it is a fall-back."""

    strategy: str
    warning: bool


@dataclass(frozen=True, slots=True)
class RebalanceStarted(RebalanceEvent):
    """What this member owns is not what it should own; ``generation`` is 0 for strategies without one."""

    strategy: str
    generation: int


@dataclass(frozen=True, slots=True)
class DeliveryStopped(RebalanceEvent):
    """From now on no record of these partitions is handed out; they are still owned."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Committed(RebalanceEvent):
    """The next offset to consume, by partition, is in ZooKeeper."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class CommitRefused(RebalanceEvent):
    """Not written: this member is not, or not certainly, the owner."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True)
class Released(RebalanceEvent):
    """The owner znodes are gone. ``not_ours``: those that had another owner or none already, so nothing was done."""

    partitions: tuple[TopicPartition, ...]
    not_ours: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Claimed(RebalanceEvent):
    """The owner znodes are this member's; partition -> committed offset (-1: none). ``zxid``: of the latest claim.

    ``tokens``: partition -> version of its offset znode after the claim. Of two claims of a partition the one with the
    larger token is the later one, whenever the events are told (one of a member that was paused comes late).
    """

    offsets: Mapping[TopicPartition, int]
    tokens: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ClaimWaits(RebalanceEvent):
    """Another thread owns the partition; its znode is watched and the claim follows when it is gone."""

    partition: TopicPartition
    owner: str


@dataclass(frozen=True, slots=True)
class ClaimOverdue(RebalanceEvent):
    """A warning: the owner has not released the partition for longer than the retries of Kafka's consumer last."""

    partition: TopicPartition
    owner: str
    waited_ms: int


@dataclass(frozen=True, slots=True)
class DeliveryStarted(RebalanceEvent):
    """Records of these partitions are handed out from the offset on (-1: as ``auto.offset.reset`` says)."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class RebalanceFinished(RebalanceEvent):
    """This member owns what it should. ``kept`` never stopped; one that stopped and came back is lost and gained."""

    duration_ms: int
    kept: tuple[TopicPartition, ...]
    lost: tuple[TopicPartition, ...]
    gained: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OwnershipLost(RebalanceEvent):
    """These partitions are not this member's any more, without its doing; their delivery ended at once."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetsOutdated(RebalanceEvent):
    """A warning: the offsets of these partitions are those of an earlier topic of the same name (``cause``); delivery
    starts as ``auto.offset.reset`` says."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class DeliverySuspended(RebalanceEvent):
    """The connection is in doubt: nothing is handed out or committed, the claims stay."""


@dataclass(frozen=True, slots=True)
class DeliveryResumed(RebalanceEvent):
    """The session survived and everything was read again."""


@dataclass(frozen=True, slots=True)
class LeaseEnded(RebalanceEvent):
    """ZooKeeper has not answered for so long that the session may be over: nothing is handed out until it does."""


@dataclass(frozen=True, slots=True)
class GenerationWritten(RebalanceEvent):
    """This member leads the group and wrote a new assignment, in which ``moved`` partitions change hands."""

    generation: int
    strategy: str
    moved: int


@dataclass(frozen=True, slots=True)
class StaticMemberAway(RebalanceEvent):
    """The leader keeps the place of a static member that left, until ``deadline_ms`` (on the actor's own clock).

    Later by as long as the leader's connection to ZooKeeper is broken meanwhile.
    """

    consumer_id: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class PlaceNotKept(RebalanceEvent):
    """A warning of a static member: the group runs a strategy that keeps no places; ``cause`` says which and why."""


@dataclass(frozen=True, slots=True)
class GroupNotUnderstood(RebalanceEvent):
    """A warning: no assignment can be worked out (``cause``); this member stays with what it has."""


@dataclass(frozen=True, slots=True)
class SettingsDoubtful(RebalanceEvent):
    """A warning at the start: ``cause`` names the settings."""


@dataclass(frozen=True, slots=True)
class MemberLeft(RebalanceEvent):
    """Everything is released and the registration is gone."""
