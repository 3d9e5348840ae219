"""What the active controller knows: brokers, topics, assignments, leadership, states. Pure data with questions.

Written by the state machines and by the drivers after ZooKeeper confirmed a change, never before. All listings are
sorted, so that equal contexts cause equal requests.

Source: ControllerContext.scala@3.9.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kafka_zk.base.state_machine import IllegalTransition
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.election import Absences
from kafka_zk.broker.controller.states import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionEvent,
    PartitionState,
    ReplicaEvent,
    ReplicaState,
)
from kafka_zk.registry.znodes.brokers import BrokerInfo
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch as LeadershipInfo
from kafka_zk.registry.znodes.topics import TopicAssignment

__all__ = ["Context", "LeadershipInfo", "LiveBroker", "Replica", "ReplicaAssignment", "assignments_of"]

NO_LEADER = -1
LEADER_DURING_DELETE = -2
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2


class Replica(NamedTuple):
    """One replica: sorts by partition, then by broker."""

    partition: TopicPartition
    broker_id: int


class LiveBroker(NamedTuple):
    """A registered broker and its broker epoch (the czxid of its znode)."""

    info: BrokerInfo
    epoch: int


class ReplicaAssignment(NamedTuple):
    """Who replicates a partition, the preferred leader first.

    While a reassignment runs, ``replicas`` holds the target followed by the replicas that will go.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id in self.replicas if broker_id not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id in self.replicas if broker_id not in self.adding)

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Iterable[int]) -> "ReplicaAssignment":
        """The assignment while moving from ``origin`` to ``target`` (KIP-455)."""
        wanted = tuple(dict.fromkeys(target))
        everyone = tuple(dict.fromkeys((*wanted, *self.origin)))
        return ReplicaAssignment(
            everyone,
            tuple(broker_id for broker_id in everyone if broker_id not in self.origin),
            tuple(broker_id for broker_id in everyone if broker_id not in wanted),
        )

    def without(self, broker_id: int) -> "ReplicaAssignment":
        return ReplicaAssignment(*(tuple(other for other in part if other != broker_id) for part in self))

    def with_replica(self, broker_id: int) -> "ReplicaAssignment":
        return self if broker_id in self.replicas else self._replace(replicas=(*self.replicas, broker_id))


_NOBODY = ReplicaAssignment(())
_NO_PARTITIONS: Mapping[int, ReplicaAssignment] = {}


def assignments_of(topic: TopicAssignment) -> dict[int, ReplicaAssignment]:
    """By partition, from a topic's znode."""
    return {
        partition: ReplicaAssignment(
            tuple(replicas), tuple(topic.adding.get(partition, ())), tuple(topic.removing.get(partition, ()))
        )
        for partition, replicas in topic.partitions.items()
    }


class Context:
    """Everything that one reign of a controller knows. ``epoch_zk_version`` fences its writes."""

    def __init__(self, epoch: int = 0, epoch_zk_version: int = 0) -> None:
        self.epoch = epoch
        self.epoch_zk_version = epoch_zk_version
        self.brokers: dict[int, LiveBroker] = {}  # registered, those that are shutting down included
        self.shutting_down: set[int] = set()
        self.unclean_starts: set[int] = set()  # announced, and not dealt with yet
        self.topics: set[str] = set()
        self.topic_ids: dict[str, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, LeadershipInfo] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.offline_dirs: dict[int, set[TopicPartition]] = {}  # broker -> its replicas on failed log directories
        self.topics_to_delete: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

    # -- brokers --

    def is_live(self, broker_id: int) -> bool:
        """Registered and not shutting down."""
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def is_replica_online(self, broker_id: int, partition: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """Whether its broker is live (or shutting down, if that counts) and its log directory has not failed."""
        live = broker_id in self.brokers if or_shutting_down else self.is_live(broker_id)
        return live and partition not in self.offline_dirs.get(broker_id, ())

    def absences(self, info: LeadershipInfo) -> Absences:
        """Which members of the ISR were away since this state was written."""
        away = [member for member in info.isr if self._registered_after(member, info.zxid)]
        return Absences(away, [member for member in info.isr if member in self.unclean_starts])

    def _registered_after(self, broker_id: int, zxid: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and 0 <= zxid < broker.epoch

    def live_replicas(self, partition: TopicPartition, *, or_shutting_down: bool = False) -> tuple[int, ...]:
        """In the order of the assignment."""
        return tuple(
            broker_id
            for broker_id in self.replicas(partition)
            if self.is_replica_online(broker_id, partition, or_shutting_down=or_shutting_down)
        )

    # -- assignments --

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Without replicas for a partition that is not known."""
        return self.assignments.get(partition.topic, _NO_PARTITIONS).get(partition.partition, _NOBODY)

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.assignment(partition).replicas

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def partitions(self) -> list[TopicPartition]:
        return [tp for topic in sorted(self.assignments) for tp in self.partitions_of(topic)]

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in sorted(self.assignments.get(topic, ()))]

    def partition_count(self, topic: str) -> int:
        return len(self.assignments.get(topic, ()))

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [Replica(tp, broker_id) for tp in partitions for broker_id in self.replicas(tp)]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        return self.replicas_of(self.partitions_of(topic))

    def replicas_on(self, broker_ids: Collection[int]) -> list[Replica]:
        return [replica for replica in self.replicas_of(self.partitions()) if replica.broker_id in broker_ids]

    def partitions_being_reassigned(self) -> list[TopicPartition]:
        return [tp for tp in self.partitions() if self.assignment(tp).is_being_reassigned]

    def remove_topic(self, topic: str) -> None:
        """Forget everything about a topic."""
        for replica in self.replicas_of_topic(topic):
            self.replica_states.pop(replica, None)
        for tp in self.partitions_of(topic):
            self.leadership.pop(tp, None)
            self.partition_states.pop(tp, None)
            for offline in self.offline_dirs.values():
                offline.discard(tp)
        self.assignments.pop(topic, None)
        self.topic_ids.pop(topic, None)
        for topics in (
            self.topics,
            self.topics_to_delete,
            self.topics_with_deletion_started,
            self.topics_ineligible_for_deletion,
        ):
            topics.discard(topic)

    # -- leadership --

    def leader_epoch(self, partition: TopicPartition) -> int:
        """-2 while the topic is being deleted, -1 when there was no leader yet."""
        if partition.topic in self.topics_to_delete:
            return EPOCH_DURING_DELETE
        info = self.leadership.get(partition)
        return NO_EPOCH if info is None else info.leader_epoch

    def partitions_with_leadership(self) -> list[TopicPartition]:
        """Those that have (had) a leader, but not those of topics to delete."""
        return sorted(tp for tp in self.leadership if tp.topic not in self.topics_to_delete)

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return [tp for tp in self.partitions_with_leadership() if not self.has_live_leader(tp)]

    def has_live_leader(self, partition: TopicPartition) -> bool:
        info = self.leadership.get(partition)
        return info is not None and self.is_replica_online(info.leader, partition)

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """Those with more than one replica: the others cannot be led by another broker."""
        return [
            tp
            for tp in self.partitions_with_leadership()
            if self.leadership[tp].leader == broker_id and len(self.replicas(tp)) > 1
        ]

    # -- states --

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        return self.partition_states.get(partition, PartitionState.NON_EXISTENT)

    def replica_state(self, replica: Replica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def partitions_in(self, states: Collection[PartitionState]) -> list[TopicPartition]:
        return sorted(tp for tp, state in self.partition_states.items() if state in states)

    def replicas_in(self, topic: str, state: ReplicaState) -> list[Replica]:
        return [replica for replica in self.replicas_of_topic(topic) if self.replica_state(replica) is state]

    def split_legal_partitions(
        self, partitions: Iterable[TopicPartition], event: PartitionEvent
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Those for which the event is legal, and the others."""
        legal: list[TopicPartition] = []
        illegal: list[TopicPartition] = []
        allowed = PARTITION_TRANSITIONS[event]
        for tp in partitions:
            (legal if self.partition_state(tp) in allowed else illegal).append(tp)
        return legal, illegal

    def split_legal_replicas(
        self, replicas: Iterable[Replica], event: ReplicaEvent
    ) -> tuple[list[Replica], list[Replica]]:
        """Those for which the event is legal, and the others."""
        legal: list[Replica] = []
        illegal: list[Replica] = []
        allowed = REPLICA_TRANSITIONS[event]
        for replica in replicas:
            (legal if self.replica_state(replica) in allowed else illegal).append(replica)
        return legal, illegal

    def require_legal_partitions(self, partitions: Iterable[TopicPartition], event: PartitionEvent) -> None:
        """Raises IllegalTransition if the event is not legal for one of them."""
        for tp in self.split_legal_partitions(partitions, event)[1]:
            raise IllegalTransition(f"{tp}: {event.value} in {self.partition_state(tp).value}")

    def require_legal_replicas(self, replicas: Iterable[Replica], event: ReplicaEvent) -> None:
        """Raises IllegalTransition if the event is not legal for one of them."""
        for replica in self.split_legal_replicas(replicas, event)[1]:
            state = self.replica_state(replica).value
            raise IllegalTransition(f"{replica.partition} on {replica.broker_id}: {event.value} in {state}")
