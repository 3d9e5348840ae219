"""Decides which topics can be deleted now, and plans the steps of a deletion. Pure.

A znode under ``/admin/delete_topics`` requests a deletion. First, all partitions become NonExistent and every broker is
notified (UpdateMetadata with leader -2). Then every replica becomes Offline and DeletionStarted; its broker's response
makes it DeletionSuccessful or DeletionIneligible. When all replicas are deleted, the topic's znodes are deleted. A
topic is ineligible while a replica is on a dead broker or a partition is being reassigned.
Source: TopicDeletionManager.scala@3.9.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kafka_zk.broker.controller.context import Context, Replica
from kafka_zk.broker.controller.states import ReplicaState


class DeletionPlan(NamedTuple):
    """The next steps, in this order: complete the deletion of topics, move replicas to OfflineReplica so that their
    deletion is tried again, and start the deletion of topics."""

    complete: list[str]
    retry: list[Replica]
    start: list[str]


class ReplicasToDelete(NamedTuple):
    """Replicas of topics whose deletion starts: those on live brokers, and those that must wait."""

    live: list[Replica]
    dead: list[Replica]


def enqueue(context: Context, topics: Iterable[str]) -> None:
    """Record requested deletions. Deletions of topics with a reassignment must wait."""
    ordered = set(topics)
    context.topics_to_delete |= ordered
    moving = {tp.topic for tp in context.partitions_being_reassigned()}
    context.topics_ineligible_for_deletion |= ordered & moving


def enqueue_at_failover(context: Context, topics: Iterable[str]) -> None:
    """Record the deletions that the previous controller left. Deletions of topics with an offline replica must wait."""
    enqueue(context, topics)
    halt(
        context,
        (
            topic
            for topic in context.topics_to_delete
            if any(not context.is_replica_online(r.broker_id, r.partition) for r in context.replicas_of_topic(topic))
        ),
    )


def halt(context: Context, topics: Iterable[str]) -> None:
    """Make topics whose deletion was requested wait for ``resume``; other topics are ignored."""
    context.topics_ineligible_for_deletion |= context.topics_to_delete & set(topics)


def resume(context: Context, topics: Iterable[str]) -> None:
    context.topics_ineligible_for_deletion -= set(topics)


def waiting(context: Context) -> set[str]:
    """Topics whose deletion was requested and has to wait."""
    return context.topics_to_delete & context.topics_ineligible_for_deletion


def is_refused(context: Context, topic: str) -> bool:
    """True if only a broker's rejection prevents the deletion: all replicas are online, and none is being reassigned.

    Kafka's controller retries only after the broker that rejected the deletion was away.
    """
    if any(context.assignment(tp).is_being_reassigned for tp in context.partitions_of(topic)):
        return False
    return all(context.is_replica_online(r.broker_id, r.partition) for r in context.replicas_of_topic(topic))


def plan(context: Context) -> DeletionPlan:
    """The steps that are possible now. Repeat until there are no more steps."""
    complete: list[str] = []
    retry: list[Replica] = []
    start: list[str] = []
    for topic in sorted(context.topics_to_delete):
        state_of = {replica: context.replica_state(replica) for replica in context.replicas_of_topic(topic)}
        states = set(state_of.values())
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            complete.append(topic)
        elif ReplicaState.DELETION_STARTED not in states:
            retry.extend(replica for replica, state in state_of.items() if state is ReplicaState.DELETION_INELIGIBLE)
            if topic not in context.topics_ineligible_for_deletion:
                start.append(topic)
    return DeletionPlan(complete, retry, start)


def begin(context: Context, topics: Collection[str]) -> list[str]:
    """Mark the deletions as started. Returns the topics whose deletion was not started before."""
    unseen = sorted(set(topics) - context.topics_with_deletion_started)
    context.topics_with_deletion_started |= set(unseen)
    return unseen


def replicas_to_delete(context: Context, topics: Collection[str]) -> ReplicasToDelete:
    """All replicas of the topics that are not deleted yet. Topics with an offline replica become ineligible."""
    live: list[Replica] = []
    dead: list[Replica] = []
    for topic in sorted(topics):
        for replica in context.replicas_of_topic(topic):
            if not context.is_replica_online(replica.broker_id, replica.partition):
                dead.append(replica)
            elif context.replica_state(replica) is not ReplicaState.DELETION_SUCCESSFUL:
                live.append(replica)
    halt(context, {replica.partition.topic for replica in dead})
    return ReplicasToDelete(live, dead)
