"""Events of an outside observer of a cluster: brokers, controller, partition states. Pure.

The brokers' own events are those of ``registry.client.events``, ``controller.events`` and ``replica.events``.
"""

from dataclasses import dataclass

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition

OPERATOR = "operator"
"""The actor of ``OperatorActed``."""


@dataclass(frozen=True, slots=True)
class ClusterSeen(Event):
    """Base of all events of a cluster's observer."""


@dataclass(frozen=True, slots=True)
class BrokerSeen(ClusterSeen):
    """A broker is registered; the zxid is its broker epoch."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerGone(ClusterSeen):
    """A broker's registration was deleted: its session ended, or it left."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class ControllerSeen(ClusterSeen):
    """``/controller`` names this broker (-1: the znode does not exist)."""

    controller_id: int


@dataclass(frozen=True, slots=True)
class LeadershipSeen(ClusterSeen):
    """The state znode of a partition has this content (leader -1: none)."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


@dataclass(frozen=True, slots=True)
class WatchSeen(ClusterSeen):
    """ZooKeeper lists this process as a watcher of ``path`` (``wchc``)."""

    path: str


@dataclass(frozen=True, slots=True)
class WatchGone(ClusterSeen):
    """ZooKeeper no longer lists this process as a watcher of ``path``: the watch fired, or the session ended."""

    path: str


@dataclass(frozen=True, slots=True)
class OperatorActed(ClusterSeen):
    """An operator's act with ``kafka-zk break`` or on the web page. ``expected``: the expected effect."""

    action: str
    target: str
    expected: str
