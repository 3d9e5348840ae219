"""Events of this broker's replicas for observers (flight recorder, web page, tests).

Every event has the wall-clock time in ms since the Unix epoch, the actor (such as ``broker-0``) and a short cause. It
has no zxid, because all causes are the controller or the disk.
"""

from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Role
from kafka_zk.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class ReplicaEvent(Event):
    """Base of all."""


@dataclass(frozen=True, slots=True)
class RoleChanged(ReplicaEvent):
    """This broker has another role in a partition now, or the same in another leader epoch; ``refusal``: why it cannot
    serve it."""

    partition: TopicPartition
    role: Role
    leader_epoch: int
    refusal: ErrorCode | None


@dataclass(frozen=True, slots=True)
class IsrChanged(ReplicaEvent):
    """The controller has written the ISR that this broker, the leader, had asked for."""

    partition: TopicPartition
    isr: tuple[int, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class ReplicaStopped(ReplicaEvent):
    """The controller took a replica away; ``deleted``: with its log."""

    partition: TopicPartition
    deleted: bool


@dataclass(frozen=True, slots=True)
class ReplicasOffline(ReplicaEvent):
    """A log directory failed, which these replicas were in."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ControllerIgnored(ReplicaEvent):
    """A request came from a controller that is not one any more: this broker knows ``known_epoch``."""

    controller_epoch: int
    known_epoch: int
