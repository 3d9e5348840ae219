"""Events of this broker's replicas, for observers (flight recorder, web page, tests).

They have a wall-clock time in ms, an actor (such as ``broker-0``) and a short cause, but no zxid, because the
controller or the disk is the cause.
"""

from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Role
from kafka_zk.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ReplicaEvent(Event):
    """Base of all events in this module."""


@dataclass(frozen=True, slots=True)
class RoleChanged(ReplicaEvent):
    """This broker has another role in a partition, or the same role in another leader epoch. ``refusal``: why the
    broker cannot serve it."""

    partition: TopicPartition
    role: Role
    leader_epoch: int
    refusal: ErrorCode | None


@dataclass(frozen=True, slots=True)
class IsrChanged(ReplicaEvent):
    """The controller has written the ISR that this broker, the leader, requested."""

    partition: TopicPartition
    isr: tuple[int, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class ReplicaStopped(ReplicaEvent):
    """The controller removed a replica. ``deleted``: its log was also deleted."""

    partition: TopicPartition
    deleted: bool


@dataclass(frozen=True, slots=True)
class ReplicasOffline(ReplicaEvent):
    """These replicas are offline, because their log directory failed."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ControllerIgnored(ReplicaEvent):
    """A request of an earlier controller was ignored. ``known_epoch``: the newest controller epoch."""

    controller_epoch: int
    known_epoch: int
