"""The inputs of ``GroupMember.step``."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.topics_wanted import TopicsWanted
from kafka_zk.registry.consumers import Member
from kafka_zk.registry.owners import Claimed, Taken
from kafka_zk.registry.znodes.group_assignment import GroupAssignment


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A new session began; this member has no znodes in it."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The registration was created; ``czxid`` determines the member's age."""

    session_id: int
    czxid: int


@dataclass(frozen=True, slots=True)
class MembersRead:
    """All registrations of the group, by consumer id."""

    members: Mapping[str, Member]


@dataclass(frozen=True, slots=True)
class PartitionsRead:
    """The partitions of all ``wanted`` topics (empty for a topic that does not exist)."""

    wanted: TopicsWanted
    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The current czxids of held topics (0: deleted)."""

    czxids: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """The ids of the live brokers."""

    broker_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class AssignmentRead:
    """``assignment``: the leader's latest one; None if none is written. ``version``: the znode's version, on which the
    next write depends."""

    assignment: GroupAssignment | None
    version: int


@dataclass(frozen=True, slots=True)
class AssignmentSettled:
    """The write of an assignment ended. ``stands``: the assignment that is now in ZooKeeper, perhaps another member's;
    None if the write was refused, for the reason ``error``. ``written``: this member's assignment was written.
    """

    stands: AssignmentRead | None
    written: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class OwnersRead:
    """The thread id that owns each partition."""

    owners: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class ClaimSettled:
    """The outcome of each claim of one ``ClaimPartition``."""

    outcomes: Mapping[TopicPartition, Claimed | Taken]


@dataclass(frozen=True, slots=True)
class OwnersGone:
    """Watched owner znodes were deleted."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class DeliveryStopped:
    """The user finished the delivered records. ``offsets``: partition -> next offset to commit, or None if there is
    nothing to commit.
    """

    stop_id: int
    offsets: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class ReleaseSettled:
    """``outcomes``: True if the offset was committed and the partition released; False if nothing was done, because
    this member no longer owned the partition."""

    outcomes: Mapping[TopicPartition, bool]


@dataclass(frozen=True, slots=True)
class OwnershipLost:
    """This member lost these partitions: a commit was refused, or the owner znode was deleted (``cause``)."""

    partitions: frozenset[TopicPartition]
    cause: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """The connection broke; the session may survive."""


@dataclass(frozen=True, slots=True)
class Connected:
    """Connected again in the same session. ``lost``: owned partitions whose owner znodes are no longer ours."""

    lost: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The session ended, and with it registration, claims and watches."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer of ``SetTimer`` expired."""

    name: str


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The consumer asked the member to stop, commit, release and unregister."""


@dataclass(frozen=True, slots=True)
class Unregistered:
    """The registration was deleted."""


Input = (
    SessionOpened
    | Registered
    | MembersRead
    | PartitionsRead
    | TopicsSeen
    | BrokersRead
    | AssignmentRead
    | AssignmentSettled
    | OwnersRead
    | ClaimSettled
    | OwnersGone
    | DeliveryStopped
    | ReleaseSettled
    | OwnershipLost
    | Suspended
    | Connected
    | SessionEnded
    | TimerFired
    | LeaveRequested
    | Unregistered
)
