"""Decides whether a leader may change its partition's ISR (AlterPartition, KIP-497). Pure.

A proposal contains the leader epoch and partition epoch (the state znode's version) that the leader knows. Leaders
react to the error code, so checks are in Kafka's order:

    an epoch above the controller's own     NOT_CONTROLLER             the leader looks for a newer controller
    an older leader epoch                   FENCED_LEADER_EPOCH        it waits for LeaderAndIsr
    equal to the current state              granted again              the previous response was lost
    an older partition epoch                INVALID_UPDATE_VERSION     it waits for LeaderAndIsr
    not from the leader, or impossible      INVALID_REQUEST            it waits for LeaderAndIsr
    members that cannot be in the ISR       INELIGIBLE_REPLICA         it returns to the previous ISR

Source: KafkaController.processAlterPartition@3.9; KIP-704 (recovery), KIP-841 (eligible replicas).
"""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.context import Context, LeadershipInfo
from kafka_zk.broker.controller.effects import WriteState
from kafka_zk.broker.controller.partition_state import RECOVERED, RECOVERING
from kafka_zk.protocol.errors import ErrorCode


class Proposal(NamedTuple):
    """``leader_epoch`` and ``partition_epoch`` (znode version): those that the leader knows."""

    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int
    partition_epoch: int


Verdict = WriteState | LeadershipInfo | ErrorCode
"""The state to write; the current state if it already equals the proposal; or the reason for the rejection."""


def validate(context: Context, broker_id: int, tp: TopicPartition, proposal: Proposal) -> Verdict:
    """Judge a proposal from a registered broker."""
    info = context.leadership.get(tp)
    if info is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if proposal.partition_epoch > info.zk_version or proposal.leader_epoch > info.leader_epoch:
        return ErrorCode.NOT_CONTROLLER
    if proposal.leader_epoch < info.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if _stands(info, broker_id, proposal):
        return info
    if proposal.partition_epoch < info.zk_version:
        return ErrorCode.INVALID_UPDATE_VERSION
    if broker_id != info.leader or not _is_possible(info, proposal):
        return ErrorCode.INVALID_REQUEST
    if not all(context.is_live(member) and member in context.replicas(tp) for member in proposal.isr):
        return ErrorCode.INELIGIBLE_REPLICA
    wanted = LeadershipInfo(
        info.leader,
        list(proposal.isr),
        info.leader_epoch,
        context.epoch,
        proposal.leader_recovery_state,
        info.zk_version,
    )
    return WriteState(tp, wanted, ())


def _stands(info: LeadershipInfo, broker_id: int, proposal: Proposal) -> bool:
    """True if the proposal equals the current state. The partition epoch that the leader knows does not matter."""
    known = (info.leader, tuple(info.isr), info.leader_recovery_state)
    return known == (broker_id, proposal.isr, proposal.leader_recovery_state)


def _is_possible(info: LeadershipInfo, proposal: Proposal) -> bool:
    if info.leader not in proposal.isr or len(set(proposal.isr)) != len(proposal.isr):
        return False
    if proposal.leader_recovery_state == RECOVERING:
        return info.leader_recovery_state == RECOVERING and len(proposal.isr) == 1
    return proposal.leader_recovery_state == RECOVERED
