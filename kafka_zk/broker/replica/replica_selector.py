"""Selects the replica from which a consumer should read: with ``replica.selector.class``, one in its rack (KIP-392).

Only a leader selects, among in-sync replicas that have the offset. Pure.
Source: ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector.java, ReplicaView.java@3.9.
Tests: tests/kafka_zk/broker/handlers/data/test_preferred_read_replica.py.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.partition import Partition, Role


class ReplicaView(NamedTuple):
    """``rack``: None if the broker has no rack, or if the client cannot reach the broker. ``since_caught_up_ms``: time
    since the replica last had all records of the leader; 0 for the leader itself."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    since_caught_up_ms: int


def rack_aware(client_rack: str, leader: ReplicaView, followers: Iterable[ReplicaView]) -> ReplicaView:
    """The leader if it is in the client's rack or no follower is; otherwise the most advanced follower in that rack."""
    if not client_rack or leader.rack == client_rack:
        return leader
    near = [each for each in followers if each.rack == client_rack]
    return max(near, default=leader, key=lambda each: (each.log_end_offset, -each.since_caught_up_ms, each.broker_id))


def preferred_read_replica(
    partition: Partition, client_rack: str, listener: str, fetch_offset: int, metadata: MetadataCache, now_ms: int
) -> int | None:
    """The broker from which a consumer should read instead; None if this broker is the right one or does not lead.

    ``listener``: the consumer's listener; the other broker must be reachable over it.
    """
    log, remotes = partition.log, partition.remotes
    if partition.role is not Role.LEADER or log is None or remotes is None:
        return None

    def rack(broker_id: int) -> str | None:
        broker = metadata.brokers.get(broker_id)
        return None if broker is None or listener not in broker.endpoints else broker.rack

    followers = [
        ReplicaView(each.broker_id, rack(each.broker_id), each.log_end_offset, now_ms - each.last_caught_up_ms)
        for each in remotes.followers.values()
        if each.broker_id in partition.isr and each.log_start_offset <= fetch_offset <= each.log_end_offset
    ]
    leader = ReplicaView(partition.broker_id, rack(partition.broker_id), log.log_end_offset, 0)
    selected = rack_aware(client_rack, leader, followers)
    return None if selected is leader else selected.broker_id
