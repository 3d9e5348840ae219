"""Which topics can be deleted now, and what has to happen for it. Pure.

A deletion is ordered by a znode under ``/admin/delete_topics``. It starts by taking all partitions to NonExistent and
telling every broker (UpdateMetadata with leader -2), then every replica to Offline and DeletionStarted. Each broker's
answer takes its replicas to DeletionSuccessful or DeletionIneligible; when all are successful the topic's znodes go. A
replica on a dead broker makes the topic ineligible until that broker is back, a reassignment until it is done.

Source: TopicDeletionManager.scala@3.9.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kafka_zk.broker.controller.context import Context, Replica
from kafka_zk.broker.controller.states import ReplicaState


class DeletionPlan(NamedTuple):
    """What to do now, in this order: ``complete`` (topics), ``retry`` (replicas to Offline), ``start`` (topics)."""

    complete: list[str]
    retry: list[Replica]
    start: list[str]


class ReplicasToDelete(NamedTuple):
    """The replicas of topics whose deletion starts: those on live brokers, and those whose deletion must wait."""

    live: list[Replica]
    dead: list[Replica]


def enqueue(context: Context, topics: Iterable[str]) -> None:
    """Deletion was ordered. Topics that are being reassigned have to wait."""
    ordered = set(topics)
    context.topics_to_delete |= ordered
    moving = {tp.topic for tp in context.partitions_being_reassigned()}
    context.topics_ineligible_for_deletion |= ordered & moving


def enqueue_at_failover(context: Context, topics: Iterable[str]) -> None:
    """Deletions that the controller before this one left: with a dead replica they have to wait."""
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
    """These topics (if they are to be deleted) have to wait for ``resume``."""
    context.topics_ineligible_for_deletion |= context.topics_to_delete & set(topics)


def resume(context: Context, topics: Iterable[str]) -> None:
    """What these topics waited for has happened."""
    context.topics_ineligible_for_deletion -= set(topics)


def waiting(context: Context) -> set[str]:
    """Topics to be deleted, but not now."""
    return context.topics_to_delete & context.topics_ineligible_for_deletion


def is_refused(context: Context, topic: str) -> bool:
    """Whether the topic is held up only by a refusal: all its replicas are online, and none is being reassigned. A
    live broker could not delete one; Kafka's controller tries that again only after the broker was away."""
    if any(context.assignment(tp).is_being_reassigned for tp in context.partitions_of(topic)):
        return False
    return all(context.is_replica_online(r.broker_id, r.partition) for r in context.replicas_of_topic(topic))


def plan(context: Context) -> DeletionPlan:
    """What can be done now. Running it and planning again ends when nothing is left to do."""
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
    """Those of the topics whose deletion starts for the first time; they count as started from now on."""
    unseen = sorted(set(topics) - context.topics_with_deletion_started)
    context.topics_with_deletion_started |= set(unseen)
    return unseen


def replicas_to_delete(context: Context, topics: Collection[str]) -> ReplicasToDelete:
    """Every replica of the topics that is not deleted yet; topics with a dead one become ineligible."""
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
