"""Events of a group member for observers (``kafka-zk watch``, the flight recorder, the tests' checker).

Every event has the wall-clock time in ms since the epoch, the actor (the consumer id), the cause in a few words, and
the zxid of the change behind it (0: none or unknown). The order in a rebalance is ``StrategyChosen`` (only if it
changed), ``RebalanceStarted``, ``DeliveryStopped``, ``Released``, ``Claimed`` or ``ClaimWaits``, ``DeliveryStarted``,
``RebalanceFinished``. Partitions that change together share one event.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition


@dataclass(frozen=True, slots=True)
class RebalanceEvent(Event):
    """Base of all events of a member."""


@dataclass(frozen=True, slots=True)
class MemberRegistered(RebalanceEvent):
    """This member is registered under ``ids`` (``zxid``: its czxid). It owns nothing in this session yet."""

    session_id: int


@dataclass(frozen=True, slots=True)
class StrategyChosen(RebalanceEvent):
    """This member now computes another strategy for the group. ``warning``: the strategy is a fall-back."""

    strategy: str
    warning: bool


@dataclass(frozen=True, slots=True)
class RebalanceStarted(RebalanceEvent):
    """This member's partitions are not those that it should own. ``generation`` is 0 for strategies without
    generations."""

    strategy: str
    generation: int


@dataclass(frozen=True, slots=True)
class DeliveryStopped(RebalanceEvent):
    """Delivery of these partitions has stopped; they are still owned."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Committed(RebalanceEvent):
    """The next offsets to consume, by partition, were written to ZooKeeper."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class CommitRefused(RebalanceEvent):
    """A commit was not written, because this member is not, or may not be, the owner."""

    partition: TopicPartition
    reason: str


@dataclass(frozen=True, slots=True)
class Released(RebalanceEvent):
    """The owner znodes were deleted. ``not_ours``: partitions that already had another owner or none."""

    partitions: tuple[TopicPartition, ...]
    not_ours: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Claimed(RebalanceEvent):
    """This member owns the partitions. ``offsets``: partition -> committed offset (-1: none). ``zxid``: the zxid of the
    latest claim.

    ``tokens``: partition -> version of its offset znode after the claim. Of two claims of a partition, the one with the
    larger token is the later one, even if a paused member reports its event late.
    """

    offsets: Mapping[TopicPartition, int]
    tokens: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ClaimWaits(RebalanceEvent):
    """Another thread owns the partition. The member watches its owner znode and claims again when that is deleted."""

    partition: TopicPartition
    owner: str


@dataclass(frozen=True, slots=True)
class ClaimOverdue(RebalanceEvent):
    """A warning: the owner has not released the partition in the time after which Kafka's consumer would give up.
    ``waited_ms``: since the claim."""

    partition: TopicPartition
    owner: str
    waited_ms: int


@dataclass(frozen=True, slots=True)
class DeliveryStarted(RebalanceEvent):
    """Delivery of these partitions starts at these offsets (-1: decided by ``auto.offset.reset``)."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class RebalanceFinished(RebalanceEvent):
    """This member owns exactly the partitions that it should. ``kept``: never stopped. A partition that stopped and
    restarted is in ``lost`` and in ``gained``. ``duration_ms``: since ``RebalanceStarted``.
    """

    duration_ms: int
    kept: tuple[TopicPartition, ...]
    lost: tuple[TopicPartition, ...]
    gained: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OwnershipLost(RebalanceEvent):
    """This member lost these partitions without releasing them; their delivery ended immediately."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OffsetsOutdated(RebalanceEvent):
    """A warning: the offsets of these partitions belong to an earlier topic of the same name (``cause``); delivery
    starts as ``auto.offset.reset`` decides."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class DeliverySuspended(RebalanceEvent):
    """The connection is in doubt. Nothing is delivered or committed; the claims stay."""


@dataclass(frozen=True, slots=True)
class DeliveryResumed(RebalanceEvent):
    """The session survived, and all state was read again."""


@dataclass(frozen=True, slots=True)
class LeaseEnded(RebalanceEvent):
    """ZooKeeper has not responded for so long that the session may have ended. Delivery waits for a response."""


@dataclass(frozen=True, slots=True)
class GenerationWritten(RebalanceEvent):
    """This member leads the group and wrote a new assignment that moves ``moved`` partitions."""

    generation: int
    strategy: str
    moved: int


@dataclass(frozen=True, slots=True)
class StaticMemberAway(RebalanceEvent):
    """The leader reserves the partitions of an absent static member until ``deadline_ms`` (on the actor's own clock).

    Time that the leader is disconnected from ZooKeeper extends the deadline.
    """

    consumer_id: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class PlaceNotKept(RebalanceEvent):
    """A static member's warning: the group's strategy ignores static membership. ``cause`` names the strategy and the
    reason.
    """


@dataclass(frozen=True, slots=True)
class GroupNotUnderstood(RebalanceEvent):
    """A warning: no assignment can be computed (``cause``). This member keeps its partitions."""


@dataclass(frozen=True, slots=True)
class SettingsDoubtful(RebalanceEvent):
    """A warning at startup; ``cause`` names the settings."""


@dataclass(frozen=True, slots=True)
class MemberLeft(RebalanceEvent):
    """The member has released everything and deleted its registration."""
