"""The partition state machine: what transitions need from ZooKeeper and send to brokers. Pure.

    NonExistent -> New                nothing: the assignment is known
    New -> Online                     the state znode is created with the first live replicas as leader and ISR
    Online, Offline -> Online         a leader is elected: the state znode is written, the replicas are notified
    New, Online, Offline -> Offline   nothing: the leader is gone
    Offline -> NonExistent            nothing: the topic is being deleted

Writes to ZooKeeper have two steps: ``create_leadership`` and ``elect`` return them, ``established`` records them. If
one fails, the partition stays unchanged.

Source: PartitionStateMachine.scala@3.9. Legality: ``states.PARTITION_TRANSITIONS``.
"""

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kafka_zk.base.integers import INT32
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import election
from kafka_zk.broker.controller.context import Context, LeadershipInfo
from kafka_zk.broker.controller.effects import CreateState, FailedChange, SendLeaderAndIsr, WriteState
from kafka_zk.broker.controller.election import Elected
from kafka_zk.broker.controller.states import PartitionEvent, PartitionState

RECOVERED = 0
RECOVERING = 1  # elected uncleanly, so it must recover first (KIP-704)


class ElectionStrategy(enum.Enum):
    OFFLINE = "offline"
    OFFLINE_UNCLEAN = "offline, unclean"  # requested by an administrator
    RETURNED = "returned"  # the leader or another ISR member had been away, see ``returned``
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled shutdown"


def initialize(context: Context, partitions: Iterable[TopicPartition]) -> None:
    """Set the states at failover from assignments, leadership and live brokers."""
    for tp in partitions:
        if tp not in context.leadership:
            context.partition_states[tp] = PartitionState.NEW
        elif context.has_live_leader(tp):
            context.partition_states[tp] = PartitionState.ONLINE
        else:
            context.partition_states[tp] = PartitionState.OFFLINE


def move(context: Context, partitions: Collection[TopicPartition], event: PartitionEvent) -> None:
    """Apply an event other than BRING_ONLINE. Raises IllegalTransition before anything moves."""
    assert event is not PartitionEvent.BRING_ONLINE, "Online needs a leader"
    context.require_legal_partitions(partitions, event)
    context.partition_states.update(dict.fromkeys(partitions, event.target))


def create_leadership(
    context: Context, partitions: Collection[TopicPartition]
) -> tuple[list[CreateState], list[FailedChange]]:
    """The first leader and ISR of New partitions. Raises IllegalTransition."""
    context.require_legal_partitions(partitions, PartitionEvent.BRING_ONLINE)
    creates: list[CreateState] = []
    refused: list[FailedChange] = []
    for tp in partitions:
        elected = election.new_partition(context.live_replicas(tp))
        if elected is None:
            refused.append(FailedChange(tp, f"none of the replicas {list(context.replicas(tp))} is alive"))
        else:
            creates.append(CreateState(tp, LeadershipInfo(elected.leader, elected.isr, 0, context.epoch)))
    return creates, refused


def elect(
    context: Context,
    strategy: ElectionStrategy,
    current: Mapping[TopicPartition, LeadershipInfo | None],
    unclean_topics: Collection[str] = (),
) -> tuple[list[WriteState], list[FailedChange]]:
    """Elect a leader for each partition of ``current``.

    Args:
        current: last known states; None if missing or invalid.
        unclean_topics: those that allow a leader outside the ISR.
    Raises: IllegalTransition.
    """
    context.require_legal_partitions(current, PartitionEvent.BRING_ONLINE)
    writes: list[WriteState] = []
    refused: list[FailedChange] = []
    for tp, info in current.items():
        if info is None:
            refused.append(FailedChange(tp, "it has no valid state znode"))
        elif (reason := why_final(context, info)) is not None:
            refused.append(FailedChange(tp, reason))
        else:
            elected, recipients = _elect_one(context, strategy, tp, info, tp.topic in unclean_topics)
            if elected is None:
                refused.append(FailedChange(tp, f"no leader can be elected ({strategy.value}), ISR {info.isr}"))
            else:
                writes.append(WriteState(tp, _next(context, info, elected), recipients))
    return writes, refused


def raise_leader_epochs(
    context: Context, current: Mapping[TopicPartition, LeadershipInfo | None]
) -> tuple[list[WriteState], list[FailedChange]]:
    """The given states with the next leader epoch, because leaders accept another replica list only in a new epoch."""
    writes: list[WriteState] = []
    refused: list[FailedChange] = []
    for tp, info in current.items():
        if info is None:
            refused.append(FailedChange(tp, "it has no valid state znode"))
        elif (reason := why_final(context, info)) is not None:
            refused.append(FailedChange(tp, reason))
        else:
            raised = replace(info, leader_epoch=info.leader_epoch + 1, controller_epoch=context.epoch)
            writes.append(WriteState(tp, raised, ()))
    return writes, refused


def why_final(context: Context, info: LeadershipInfo) -> str | None:
    """Why this controller cannot write the next state; None if it can."""
    if info.controller_epoch > context.epoch:
        return f"a controller with epoch {info.controller_epoch} has already written its state"
    if info.leader_epoch + 1 not in INT32:
        return f"its leader epoch {info.leader_epoch} is the largest possible one"
    return None


def topics_without_live_isr(context: Context, current: Mapping[TopicPartition, LeadershipInfo | None]) -> list[str]:
    """Topics with an ISR without live members, whose configuration may allow an unclean election."""
    return sorted(
        {
            tp.topic
            for tp, info in current.items()
            if info is not None and not any(context.is_replica_online(member, tp) for member in info.isr)
        }
    )


def established(context: Context, write: CreateState | WriteState, zk_version: int) -> SendLeaderAndIsr:
    """Record that the state znode was written with version ``zk_version`` and that the partition is Online."""
    tp, info = write.partition, replace(write.info, zk_version=zk_version)
    context.require_legal_partitions((tp,), PartitionEvent.BRING_ONLINE)
    context.leadership[tp] = info
    context.partition_states[tp] = PartitionState.ONLINE
    if isinstance(write, CreateState):
        return SendLeaderAndIsr(tuple(info.isr), tp, is_new=True)
    return SendLeaderAndIsr(write.recipients, tp)


def adopt(context: Context, partition: TopicPartition, info: LeadershipInfo) -> None:
    """Move a New partition that already has a state in ZooKeeper to Offline, so that a leader is elected."""
    move(context, (partition,), PartitionEvent.TAKE_OFFLINE)
    context.leadership[partition] = info


def electable(context: Context) -> list[TopicPartition]:
    """New or Offline partitions whose topics are not being deleted."""
    waiting = context.partitions_in((PartitionState.NEW, PartitionState.OFFLINE))
    return [tp for tp in waiting if tp.topic not in context.topics_to_delete]


def returned(context: Context, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Online partitions that need an election, because a member of the ISR was away unnoticed or started uncleanly."""
    newest = max((broker.epoch for broker in context.brokers.values()), default=-1)
    found = []
    for tp in partitions:
        info = context.leadership.get(tp)
        if info is None or context.partition_state(tp) is not PartitionState.ONLINE:
            continue
        if (info.zxid < newest or context.unclean_starts) and tp.topic not in context.topics_to_delete:
            replicas, live = context.replicas(tp), context.live_replicas(tp)
            if election.must_be_elected_again(replicas, info.isr, live, info.leader, context.absences(info)):
                found.append(tp)
    return found


def dealt_with(context: Context) -> set[int]:
    """Brokers whose unclean start is resolved: no ISR with other members contains them."""
    shared = {
        member
        for tp, info in context.leadership.items()
        if len(info.isr) > 1 and tp.topic not in context.topics_to_delete
        for member in info.isr
        if member in context.unclean_starts
    }
    return context.unclean_starts - shared


def has_candidate(context: Context, tp: TopicPartition) -> bool:
    """True if a live broker could be elected."""
    info = context.leadership.get(tp)
    return any(info is None or broker_id in info.isr for broker_id in context.live_replicas(tp))


def _elect_one(
    context: Context, strategy: ElectionStrategy, tp: TopicPartition, info: LeadershipInfo, unclean_allowed: bool
) -> tuple[Elected | None, tuple[int, ...]]:
    """The leader, and the brokers to notify."""
    assignment = context.assignment(tp)
    live = context.live_replicas(tp)
    match strategy:
        case ElectionStrategy.OFFLINE | ElectionStrategy.OFFLINE_UNCLEAN:
            unclean_allowed = unclean_allowed or strategy is ElectionStrategy.OFFLINE_UNCLEAN
            absences = context.absences(info)
            return election.offline(assignment.replicas, info.isr, live, unclean_allowed, absences), live
        case ElectionStrategy.RETURNED:
            return election.returned(assignment.replicas, info.isr, live, info.leader, context.absences(info)), live
        case ElectionStrategy.REASSIGN:
            return election.reassign(assignment.target, info.isr, live), assignment.target
        case ElectionStrategy.PREFERRED:
            return election.preferred(assignment.replicas, info.isr, live), assignment.replicas
        case ElectionStrategy.CONTROLLED_SHUTDOWN:
            reachable = context.live_replicas(tp, or_shutting_down=True)
            elected = election.controlled_shutdown(assignment.replicas, info.isr, reachable, context.shutting_down)
            return elected, reachable


def _next(context: Context, info: LeadershipInfo, elected: Elected) -> LeadershipInfo:
    return LeadershipInfo(
        elected.leader,
        elected.isr,
        info.leader_epoch + 1,
        context.epoch,
        RECOVERING if elected.unclean else info.leader_recovery_state,
        info.zk_version,
    )
