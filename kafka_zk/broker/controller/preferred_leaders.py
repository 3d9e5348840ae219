"""Finds partitions that need another leader, because an administrator asks, or because leadership is imbalanced. Pure.

The preferred leader is the first replica of the assignment.
Source: KafkaController.processReplicaLeaderElection, checkAndTriggerAutoLeaderRebalance@3.9; KIP-460.
"""

from collections import Counter
from collections.abc import Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import election
from kafka_zk.broker.controller.context import Context
from kafka_zk.protocol.errors import ApiError, ErrorCode

_STRATEGY_NAMES = {
    False: "PreferredReplicaPartitionLeaderElectionStrategy",
    True: "OfflinePartitionLeaderElectionStrategy(true)",
}


def why_no_election(context: Context, tp: TopicPartition, *, unclean: bool) -> ApiError | None:
    """Why an election is impossible or not needed; None if it can run."""
    if tp.partition not in context.assignments.get(tp.topic, ()):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if tp.topic in context.topics_to_delete:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
    info = context.leadership.get(tp)
    if info is None:
        return None
    is_right = context.is_live(info.leader) if unclean else (info.leader,) == context.replicas(tp)[:1]
    return ApiError(ErrorCode.ELECTION_NOT_NEEDED) if is_right else None


def failed(tp: TopicPartition, *, unclean: bool) -> ApiError:
    """The error if no replica could be elected."""
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    return ApiError(code, f"Failed to elect leader for partition {tp} under strategy {_STRATEGY_NAMES[unclean]}")


class Imbalance:
    """Call ``add`` with all partitions, then ``to_elect``."""

    def __init__(self, context: Context, percentage: int) -> None:
        self._context = context
        self._percentage = percentage
        self._preferred_count: Counter[int] = Counter()
        self._elsewhere: dict[int, list[TopicPartition]] = {}

    def add(self, tps: Iterable[TopicPartition]) -> None:
        context = self._context
        for tp in tps:
            replicas = context.replicas(tp)
            if tp.topic in context.topics_to_delete or not replicas:
                continue
            self._preferred_count[replicas[0]] += 1
            info = context.leadership.get(tp)
            if info is not None and info.leader != replicas[0]:
                self._elsewhere.setdefault(replicas[0], []).append(tp)

    def to_elect(self) -> list[TopicPartition]:
        """Partitions to return to their preferred leaders: those that can lead and whose imbalance is above the
        percentage."""
        return [
            tp
            for broker_id, tps in sorted(self._elsewhere.items())
            if len(tps) * 100 > self._preferred_count[broker_id] * self._percentage
            for tp in tps
            if self._can_lead(tp)
        ]

    def _can_lead(self, tp: TopicPartition) -> bool:
        context = self._context
        isr = context.leadership[tp].isr
        return election.preferred(context.replicas(tp), isr, context.live_replicas(tp)) is not None
