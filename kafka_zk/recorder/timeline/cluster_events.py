"""What an outside observer sees of a cluster: brokers, the controller, the state of each partition.

The brokers' own events are those of ``registry.client.events``, ``controller.events`` and ``replica.events``. Pure.
"""

from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition


@dataclass(frozen=True, slots=True)
class ClusterSeen(Event):
    """Base of all."""


@dataclass(frozen=True, slots=True)
class BrokerSeen(ClusterSeen):
    """A broker is registered; the zxid is its broker epoch."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerGone(ClusterSeen):
    """A broker's registration is gone: its session ended, or it left."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class ControllerSeen(ClusterSeen):
    """``/controller`` names this broker (-1: it is not there)."""

    controller_id: int


@dataclass(frozen=True, slots=True)
class LeadershipSeen(ClusterSeen):
    """The state znode of a partition says this (leader -1: none)."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class WatchSeen(ClusterSeen):
    """ZooKeeper says that this process watches ``path`` (``wchc``)."""

    path: str


@dataclass(frozen=True, slots=True)
class WatchGone(ClusterSeen):
    """ZooKeeper says no more that this process watches ``path``: the watch fired, or the session is over."""

    path: str


@dataclass(frozen=True, slots=True)
class OperatorActed(ClusterSeen):
    """Somebody did this to the cluster with ``kafka-zk break`` or on the web page; ``expected`` is what should come."""

    action: str
    target: str
    expected: str
