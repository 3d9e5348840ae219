"""Events of an outage, derived from a ZooKeeper server's transaction log and from brokers' logs. Pure.

Each has the previous state and the duration of the change. ``after_ms`` is the time since the loss that caused the
change; -1 without a known loss.
"""

from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition

NO_BROKER = -1
NOT_KNOWN = -1


@dataclass(frozen=True, slots=True)
class OutageEvent(Event):
    """Base of all events in this module."""


@dataclass(frozen=True, slots=True)
class OwnerLost(OutageEvent):
    """A session with ephemeral znodes ended.

    ``owner``: ``broker 1`` or ``member anna of group board``, "" if its znodes name none. ``expired``: the server ended
    it, because it heard nothing for ``timeout_ms`` (-1: not known); otherwise the client closed it.
    """

    owner: str
    session_id: int
    expired: bool
    timeout_ms: int
    ephemeral_count: int


@dataclass(frozen=True, slots=True)
class BrokerReturned(OutageEvent):
    """A broker is registered again, ``after_ms`` after it was lost."""

    broker_id: int
    after_ms: int


@dataclass(frozen=True, slots=True)
class ControllerMoved(OutageEvent):
    """A node won the election. ``before``: the previous controller, -1 for the first one. ``after_ms``: the time
    without ``/controller``. ``is_kraft``: a KRaft controller, in a migration.
    """

    before: int
    controller_id: int
    controller_epoch: int
    after_ms: int
    is_kraft: bool


@dataclass(frozen=True, slots=True)
class LeaderMoved(OutageEvent):
    """The leader of a partition changed (-1: none). ``after_ms``: since the old leader was lost. ``is_unclean``: the
    new leader was not in the ISR, so records may be lost.
    """

    partition: TopicPartition
    before: int
    leader: int
    leader_epoch: int
    isr_before: tuple[int, ...]
    isr: tuple[int, ...]
    after_ms: int
    is_unclean: bool


@dataclass(frozen=True, slots=True)
class IsrMoved(OutageEvent):
    """The ISR of a partition changed; its leader did not."""

    partition: TopicPartition
    leader: int
    isr_before: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FailoverDone(OutageEvent):
    """All partitions that a lost broker led have another leader; or the broker returned, or the log ended, while
    ``leaderless_count`` of these partitions had none. ``after_ms``: since the end of the broker's session.
    """

    broker_id: int
    moved_count: int
    leaderless_count: int
    after_ms: int


@dataclass(frozen=True, slots=True)
class MigrationPhaseReached(OutageEvent):
    """The znodes show another phase of a migration to KRaft. ``sign``: what shows it. Phases: ``migration.phase``."""

    before: str
    phase: str
    sign: str


@dataclass(frozen=True, slots=True)
class BrokerLogged(OutageEvent):
    """A line of a broker's own log that reports an event. The actor is the broker.

    ``kind``: see ``broker_logs.patterns``. ``subject``: the partition or group, "" for neither. ``said``: the fact in a
    few words. ``file``, ``line_number``: the line's place. ``line``: its text, cut if it is long.
    """

    kind: str
    subject: str
    said: str
    file: str
    line_number: int
    line: str
