"""The active controller's state, as pure data with queries: brokers, topics, assignments, leadership.

It changes only after ZooKeeper has confirmed a change. Lists are sorted, so equal contexts produce equal requests.
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

__all__ = ["Context", "LeadershipInfo", "LiveBroker", "Replica", "ReplicaAssignment", "assignment_of"]

NO_LEADER = -1
LEADER_DURING_DELETE = -2
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2


class Replica(NamedTuple):
    """A replica of a partition. Replicas are sorted by partition, then broker."""

    partition: TopicPartition
    broker_id: int


class LiveBroker(NamedTuple):
    """A registered broker; its epoch is its znode's czxid."""

    info: BrokerInfo
    epoch: int


class ReplicaAssignment(NamedTuple):
    """A partition's replicas by broker id, the preferred leader first.

    ``replicas``: no duplicates; during a reassignment the target, then the replicas to be removed. ``adding``,
    ``removing``: subsets, empty without a reassignment.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(broker_id for broker_id in self.replicas if broker_id not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
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


def assignment_of(topic: TopicAssignment, partition: int) -> ReplicaAssignment:
    return ReplicaAssignment(
        tuple(topic.partitions[partition]),
        tuple(topic.adding.get(partition, ())),
        tuple(topic.removing.get(partition, ())),
    )


class Context:
    """One term's state; except for the epochs, the failover fills it."""

    def __init__(self, epoch: int = 0, epoch_zk_version: int = 0) -> None:
        self.epoch = epoch
        """The controller epoch of the term, constant; greater than that of any earlier term."""
        self.epoch_zk_version = epoch_zk_version
        """Version of ``/controller_epoch`` after the election, constant; every write checks it (fencing)."""
        self.brokers: dict[int, LiveBroker] = {}
        """All registered brokers by id, including those that are shutting down."""
        self.shutting_down: set[int] = set()
        """Brokers that asked for a controlled shutdown: a subset of ``brokers``."""
        self.unclean_starts: set[int] = set()
        """Brokers that announced an unclean start and may be in a shared ISR although they lack some of its records."""
        self.topics: set[str] = set()
        """All topics with a znode and a legal name, including those being deleted."""
        self.topic_ids: dict[str, str] = {}
        """Topic id by topic name; missing if the znode has no id."""
        self.topic_zxids: dict[str, int] = {}
        """Zxid of the last write of each topic's znode in ``assignments``."""
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        """Assignment by topic and partition number: the partitions that exist."""
        self.leadership: dict[TopicPartition, LeadershipInfo] = {}
        """Last known state znodes; no entry if there never was a leader."""
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        """No entry means NonExistent. Online partitions are in ``leadership``."""
        self.replica_states: dict[Replica, ReplicaState] = {}
        """No entry means NonExistent."""
        self.offline_dirs: dict[int, set[TopicPartition]] = {}
        """Broker id -> replicas on failed log directories; reset when the broker starts or fails."""
        self.topics_to_delete: set[str] = set()
        """Topics whose deletion was requested and is not complete."""
        self.topics_with_deletion_started: set[str] = set()
        """The topics in ``topics_to_delete`` whose partitions are NonExistent."""
        self.topics_ineligible_for_deletion: set[str] = set()
        """The topics in ``topics_to_delete`` that wait for a broker, a reassignment, or a retry after a rejection."""

    # -- brokers --

    def is_live(self, broker_id: int) -> bool:
        """True if the broker is registered and not shutting down."""
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def is_replica_online(self, broker_id: int, partition: TopicPartition, *, or_shutting_down: bool = False) -> bool:
        """True if the broker is live (if ``or_shutting_down``: registered) and the replica's log directory works."""
        live = broker_id in self.brokers if or_shutting_down else self.is_live(broker_id)
        return live and partition not in self.offline_dirs.get(broker_id, ())

    def absences(self, info: LeadershipInfo) -> Absences:
        """ISR members that have been away since ``info`` was written, or that started uncleanly."""
        away = [member for member in info.isr if self._registered_after(member, info.zxid)]
        return Absences(away, [member for member in info.isr if member in self.unclean_starts])

    def _registered_after(self, broker_id: int, zxid: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and 0 <= zxid < broker.epoch

    def live_replicas(self, partition: TopicPartition, *, or_shutting_down: bool = False) -> tuple[int, ...]:
        """Online replicas in the order of the assignment."""
        return tuple(
            broker_id
            for broker_id in self.replicas(partition)
            if self.is_replica_online(broker_id, partition, or_shutting_down=or_shutting_down)
        )

    # -- assignments --

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """The partition's assignment; without replicas if the partition is unknown."""
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
        return [
            Replica(TopicPartition(topic, number), broker_id)
            for topic, assignments in sorted(self.assignments.items())
            for number, assignment in sorted(assignments.items())
            for broker_id in assignment.replicas
            if broker_id in broker_ids
        ]

    def replica_holders(self) -> set[int]:
        """All brokers that a partition is assigned to."""
        return {
            broker_id
            for assignments in self.assignments.values()
            for assignment in assignments.values()
            for broker_id in assignment.replicas
        }

    def partitions_being_reassigned(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number)
            for topic, assignments in sorted(self.assignments.items())
            for number in sorted(number for number, assignment in assignments.items() if assignment.is_being_reassigned)
        ]

    def remove_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            for broker_id in self.assignments[tp.topic].pop(tp.partition).replicas:
                self.replica_states.pop(Replica(tp, broker_id), None)
            self.leadership.pop(tp, None)
            self.partition_states.pop(tp, None)
            for offline in self.offline_dirs.values():
                offline.discard(tp)

    def remove_topic(self, topic: str) -> None:
        self.remove_partitions(self.partitions_of(topic))
        self.assignments.pop(topic, None)
        self.topic_ids.pop(topic, None)
        self.topic_zxids.pop(topic, None)
        for topics in (
            self.topics,
            self.topics_to_delete,
            self.topics_with_deletion_started,
            self.topics_ineligible_for_deletion,
        ):
            topics.discard(topic)

    # -- leadership --

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The leader epoch; -2 while the topic is being deleted, -1 if the partition never had a leader."""
        if partition.topic in self.topics_to_delete:
            return EPOCH_DURING_DELETE
        info = self.leadership.get(partition)
        return NO_EPOCH if info is None else info.leader_epoch

    def partitions_with_leadership(self) -> list[TopicPartition]:
        """Partitions with an entry in ``leadership`` whose topics are not being deleted."""
        return sorted(tp for tp in self.leadership if tp.topic not in self.topics_to_delete)

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return [tp for tp in self.partitions_with_leadership() if not self.has_live_leader(tp)]

    def has_live_leader(self, partition: TopicPartition) -> bool:
        info = self.leadership.get(partition)
        return info is not None and self.is_replica_online(info.leader, partition)

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """Partitions that the broker leads and whose leadership could move to another replica."""
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
        """Split partitions into (legal, illegal) for the event."""
        legal: list[TopicPartition] = []
        illegal: list[TopicPartition] = []
        allowed = PARTITION_TRANSITIONS[event]
        for tp in partitions:
            (legal if self.partition_state(tp) in allowed else illegal).append(tp)
        return legal, illegal

    def split_legal_replicas(
        self, replicas: Iterable[Replica], event: ReplicaEvent
    ) -> tuple[list[Replica], list[Replica]]:
        """Split replicas into (legal, illegal) for the event."""
        legal: list[Replica] = []
        illegal: list[Replica] = []
        allowed = REPLICA_TRANSITIONS[event]
        for replica in replicas:
            (legal if self.replica_state(replica) in allowed else illegal).append(replica)
        return legal, illegal

    def require_legal_partitions(self, partitions: Iterable[TopicPartition], event: PartitionEvent) -> None:
        """Raise IllegalTransition if the event is illegal for one of the partitions."""
        for tp in self.split_legal_partitions(partitions, event)[1]:
            raise IllegalTransition(f"{tp}: {event.value} in {self.partition_state(tp).value}")

    def require_legal_replicas(self, replicas: Iterable[Replica], event: ReplicaEvent) -> None:
        """Raise IllegalTransition if the event is illegal for one of the replicas."""
        for replica in self.split_legal_replicas(replicas, event)[1]:
            state = self.replica_state(replica).value
            raise IllegalTransition(f"{replica.partition} on {replica.broker_id}: {event.value} in {state}")
