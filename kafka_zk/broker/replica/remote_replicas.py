"""A leader's view of its followers: the high watermark, which followers lag, and which may join the ISR.

All members of the maximal ISR (``isr_state``) have reached the high watermark. Caught-up followers outside the ISR also
count, because a leader alone in the ISR would always advance past them. Unassigned members, which a reassignment causes
briefly, do not fetch and do not count.

Pure. Source: maybeIncrementLeaderHW, isFollowerInSync and getOutOfSyncReplicas in Partition.scala@3.9.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafka_zk.broker.replica.isr_state import Committed, IsrState
from kafka_zk.broker.replica.remote_replica import RemoteReplica


class InSyncRule(NamedTuple):
    """``max_lag_ms``: ``replica.lag.time.max.ms``. ``is_alive``: True for brokers that may join the ISR."""

    max_lag_ms: int
    is_alive: Callable[[int], bool]


class RemoteReplicas:
    """The followers of a partition while this broker leads it without interruption.

    Attributes:
        followers: by broker id.
        state: the ISR in this leader epoch.
        epoch_start_offset: the leader's log end when the epoch began.
    """

    __slots__ = ("_local_id", "_rule", "epoch_start_offset", "followers", "state")

    def __init__(self, local_id: int, rule: InSyncRule) -> None:
        self._local_id = local_id
        self._rule = rule
        self.followers: dict[int, RemoteReplica] = {}
        self.state: IsrState = Committed(())
        self.epoch_start_offset = 0

    def begin_epoch(self, replicas: Iterable[int], isr: Iterable[int], log_end_offset: int, now_ms: int) -> None:
        """Begin a new leader epoch with these ``replicas``; known followers keep their offsets."""
        known = self.followers
        self.state = Committed(tuple(isr))
        self.epoch_start_offset = log_end_offset
        self.followers = {
            broker_id: known.get(broker_id) or RemoteReplica(broker_id)
            for broker_id in replicas
            if broker_id != self._local_id
        }
        in_sync = frozenset(self.state.isr)
        for follower in self.followers.values():
            follower.begin_epoch(now_ms, log_end_offset, follower.broker_id in in_sync)

    def knows(self, broker_id: int, log_end_offset: int, log_start_offset: int) -> bool:
        """True if a fetch with these offsets is recorded.

        A fetch is recorded before it waits, unless the leader learned the follower's leader epoch only during the wait.
        """
        known = self.followers.get(broker_id)
        told = log_end_offset, log_start_offset
        return known is not None and (known.log_end_offset, known.log_start_offset) == told

    def high_watermark(self, local_end_offset: int, log_end_offset: int, now_ms: int) -> int:
        """The offset that all counted replicas have reached, at most ``local_end_offset``. It may be lower than
        before."""
        mark = local_end_offset
        maximal_isr = self.state.maximal_isr
        for follower in self.followers.values():
            if follower.log_end_offset < mark and (
                follower.broker_id in maximal_isr or self._is_about_to_join(follower, log_end_offset, now_ms)
            ):
                mark = follower.log_end_offset
        return mark

    def _is_about_to_join(self, follower: RemoteReplica, log_end_offset: int, now_ms: int) -> bool:
        max_lag_ms, is_alive = self._rule
        return follower.is_caught_up(log_end_offset, now_ms, max_lag_ms) and is_alive(follower.broker_id)

    def low_watermark(self, log_start_offset: int) -> int:
        """The lowest log start offset of live replicas; UNKNOWN_OFFSET if one has never fetched."""
        is_alive = self._rule.is_alive
        starts = [each.log_start_offset for each in self.followers.values() if is_alive(each.broker_id)]
        return min([log_start_offset, *starts])

    def may_join(self, broker_id: int, high_watermark: int) -> bool:
        """True if a follower outside the ISR has reached the high watermark and this epoch's start.

        Until then, the previous leader may have committed more than this leader knows.
        """
        state = self.state
        follower = self.followers[broker_id]
        return (
            isinstance(state, Committed)
            and broker_id not in state.isr
            and follower.log_end_offset >= max(high_watermark, self.epoch_start_offset)
            and self._rule.is_alive(broker_id)
        )

    def may_not_join(self, proposed: Iterable[int]) -> None:
        """Stop waiting for followers that the controller did not let join the ISR, perhaps because a broker is
        stopping."""
        for broker_id in proposed:
            if broker_id not in self.state.isr and broker_id in self.followers:
                self.followers[broker_id].may_not_join()

    def out_of_sync(self, log_end_offset: int, now_ms: int) -> list[int]:
        """ISR members that have lagged too long; none while a change is pending."""
        if not isinstance(self.state, Committed):
            return []
        return [
            broker_id
            for broker_id in self.state.isr
            if broker_id != self._local_id and self._lags(broker_id, log_end_offset, now_ms)
        ]

    def _lags(self, broker_id: int, log_end_offset: int, now_ms: int) -> bool:
        follower = self.followers.get(broker_id)
        return follower is None or not follower.is_caught_up(log_end_offset, now_ms, self._rule.max_lag_ms)
