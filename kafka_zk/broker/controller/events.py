"""The controller's events for observers (flight recorder, web page, tests).

They have a wall-clock time in ms, an actor (such as ``broker-0``), a short cause, and the zxid of the cause (0 if
unknown).
"""

from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import LeadershipInfo, Replica
from kafka_zk.broker.controller.effects import FailedChange
from kafka_zk.broker.controller.states import PartitionState, ReplicaState


@dataclass(frozen=True, slots=True)
class ControllerEvent(Event):
    """Base of all events in this module."""


@dataclass(frozen=True, slots=True)
class ControllerChanged(ControllerEvent):
    """``/controller`` names another broker (-1: none)."""

    controller_id: int


@dataclass(frozen=True, slots=True)
class ControllerElected(ControllerEvent):
    """This broker became the controller; ``ControllerReady`` follows when it has taken over."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ControllerReady(ControllerEvent):
    """The failover is complete."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ControllerResigned(ControllerEvent):
    """This broker is no longer the controller."""

    epoch: int


@dataclass(frozen=True, slots=True)
class BrokersChanged(ControllerEvent):
    """Brokers started, failed, started again with a new broker epoch, or changed their endpoints."""

    started: tuple[int, ...]
    failed: tuple[int, ...]
    bounced: tuple[int, ...]
    updated: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LeadersElected(ControllerEvent):
    """Leader and ISR of partitions were written."""

    leadership: tuple[tuple[TopicPartition, LeadershipInfo], ...]


@dataclass(frozen=True, slots=True)
class IsrsChanged(ControllerEvent):
    """ISRs of partitions were written, because their leaders asked or a broker is gone. A partition has no leader if
    its leader is gone and no other broker could take over."""

    leadership: tuple[tuple[TopicPartition, LeadershipInfo], ...]


@dataclass(frozen=True, slots=True)
class PartitionsMoved(ControllerEvent):
    """Partitions entered a state."""

    partitions: tuple[TopicPartition, ...]
    state: PartitionState


@dataclass(frozen=True, slots=True)
class ReplicasMoved(ControllerEvent):
    """Replicas entered a state."""

    replicas: tuple[Replica, ...]
    state: ReplicaState


@dataclass(frozen=True, slots=True)
class ChangesRefused(ControllerEvent):
    """Changes of state that were impossible, with the reasons."""

    refused: tuple[FailedChange, ...]


@dataclass(frozen=True, slots=True)
class TopicDeleted(ControllerEvent):
    """All replicas and all znodes of a topic are gone."""

    topic: str


@dataclass(frozen=True, slots=True)
class RequestSent(ControllerEvent):
    """A broker answered a request, without errors or only with errors that were already reported."""

    broker_id: int
    api: str


@dataclass(frozen=True, slots=True)
class RequestFailed(ControllerEvent):
    """A request failed and will be repeated, or the broker answered with errors, as the cause says."""

    broker_id: int
    api: str
