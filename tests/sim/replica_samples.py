"""Samples of the replicas in a run of replicated partitions, some fifty times a second."""

from collections.abc import Mapping

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.sim.world.world import SimBroker
from kafka_zk.storage.log.log import Log
from tests.sim.replica_judges import ReplicaSample, StateSample

_SERVING = (Role.LEADER, Role.FOLLOWER)
Running = Mapping[int, Mapping[TopicPartition, Partition]]
"""The partitions of each serving broker."""


def partitions_of(broker: SimBroker) -> Mapping[TopicPartition, Partition]:
    """The broker's partitions; none while it does not serve."""
    return broker.broker.services.replicas.partitions if broker.is_started and broker.broker is not None else {}


def log_end(broker: SimBroker, tp: TopicPartition) -> int | None:
    """The log end offset on the broker's disk, even if the broker is down; None if unknown."""
    if broker.is_alive and not broker.is_started:
        return None
    services = getattr(broker.broker, "services", None)
    if services is None:  # it died before it had read its logs
        return None
    log: Log | None = services.replicas.logs.get(tp)
    if log is None:
        return 0 if services.replicas.partitions else None  # None: it has closed its logs
    return log.log_end_offset


def hosted_replicas(tp: TopicPartition, running: Running) -> dict[int, Partition]:
    found = {}
    for broker_id, partitions in running.items():
        partition = partitions.get(tp)
        if partition is not None and partition.log is not None and partition.role in _SERVING:
            found[broker_id] = partition
    return found


def is_ahead(state: StateSample, running: Running) -> bool:
    """Whether a member of the ISR may lack records below the leader's high watermark. This is a quick check before the
    judge's, since it runs fifty times a second.
    """
    _, tp, leader_id, _, _, isr, _ = state
    hosted = running.get(leader_id)
    leader = None if hosted is None else hosted.get(tp)
    if leader is None or leader.log is None:
        return False
    mark = leader.log.high_watermark
    for broker_id in isr:
        if broker_id != leader_id and (hosted := running.get(broker_id)) is not None:
            partition = hosted.get(tp)
            if partition is not None and (log := partition.log) is not None and log.log_end_offset < mark:
                return True
    return False


def sampled(broker_id: int, partition: Partition) -> ReplicaSample:
    log = partition.log
    assert log is not None
    is_leader = partition.role is Role.LEADER
    return ReplicaSample(broker_id, is_leader, partition.leader_epoch, log.high_watermark, log.log_end_offset)
