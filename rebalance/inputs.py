"""What can happen to ``GroupMember``: each is given to ``step``."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.topics_wanted import TopicsWanted
from kafka_zk.registry.consumers import Member
from kafka_zk.registry.owners import Claimed, Taken
from kafka_zk.registry.znodes.group_assignment import GroupAssignment


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """There is a new session; nothing of this member is in it."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The registration stands; ``czxid`` tells its age."""

    session_id: int
    czxid: int


@dataclass(frozen=True, slots=True)
class MembersRead:
    """All registrations of the group, by consumer id."""

    members: Mapping[str, Member]


@dataclass(frozen=True, slots=True)
class PartitionsRead:
    """The partitions of all topics that are ``wanted`` (none for a topic that does not exist)."""

    wanted: TopicsWanted
    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class TopicsSeen:
    """The czxids of held topics' znodes (0: deleted), as they are now."""

    czxids: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """The ids of the live brokers."""

    broker_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class AssignmentRead:
    """The leader's newest assignment, None if there is none; ``version`` is what a write must name."""

    assignment: GroupAssignment | None
    version: int


@dataclass(frozen=True, slots=True)
class AssignmentSettled:
    """The write is done: it or another one's stands in ZooKeeper now. None: refused for good, see ``error``."""

    stands: AssignmentRead | None
    written: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class OwnersRead:
    """Who owns what, by partition: thread ids."""

    owners: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class ClaimSettled:
    """The outcome of each claim of one ``Claim``."""

    outcomes: Mapping[TopicPartition, Claimed | Taken]


@dataclass(frozen=True, slots=True)
class OwnersGone:
    """Owner znodes that were watched are not there any more."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class DeliveryStopped:
    """The user is done with the records in hand; by partition the next offset to commit (None: nothing to commit)."""

    stop_id: int
    offsets: Mapping[TopicPartition, int | None]


@dataclass(frozen=True, slots=True)
class ReleaseSettled:
    """True: committed and released; False: it was not this member's any more and nothing was done."""

    outcomes: Mapping[TopicPartition, bool]


@dataclass(frozen=True, slots=True)
class OwnershipLost:
    """These are not this member's any more: a commit was refused, or the owner znode has gone (``cause``)."""

    partitions: frozenset[TopicPartition]
    cause: str


@dataclass(frozen=True, slots=True)
class Suspended:
    """The connection broke; the session may survive."""


@dataclass(frozen=True, slots=True)
class Connected:
    """Connected again in the same session; ``lost`` are those owned before whose owner znodes are not ours now."""

    lost: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """Registration, claims and watches are gone."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """What a ``SetTimer`` of that name asked for."""

    name: str


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """Stop, commit, release, unregister."""


@dataclass(frozen=True, slots=True)
class Unregistered:
    """The registration is gone."""


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
