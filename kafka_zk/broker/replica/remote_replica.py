"""A leader's knowledge of one follower, which comes only from the follower's fetches.

The follower has all records before its fetch offset. The follower is *caught up* when it fetches from the leader's log
end. If it fetches from where the leader's log ended at the previous fetch, it was caught up at that time. Without this
rule, a stream of small batches would keep the follower out of the ISR. Pure. Times: ms on a monotonic clock. Source:
Replica.scala@3.9.
Tests: tests/kafka_zk/broker/replica/test_remote_replicas.py.
"""

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)


class RemoteReplica:
    """One follower.

    Attributes:
        broker_epoch: from the last fetch, if known.
        log_end_offset, log_start_offset: from the last fetch; UNKNOWN_OFFSET before the first.
        last_caught_up_ms: when it was last known to be caught up; NEVER_MS if it must fetch first.
    """

    __slots__ = (
        "_last_fetch_ms",
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = NEVER_MS
        self._last_fetch_ms = NEVER_MS
        self._leader_end_at_last_fetch = 0  # never decreases within a leader epoch

    def record_fetch(
        self, offset: int, log_start_offset: int, now_ms: int, leader_end_offset: int, broker_epoch: int
    ) -> None:
        """Record a fetch from ``offset`` while the leader's log ends at ``leader_end_offset``."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self._leader_end_at_last_fetch:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._last_fetch_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._last_fetch_ms = now_ms
        self._leader_end_at_last_fetch = max(leader_end_offset, self._leader_end_at_last_fetch)

    def begin_epoch(self, now_ms: int, leader_end_offset: int, is_in_sync: bool) -> None:
        """Begin a new leader epoch. ISR members count as caught up now; others must fetch first.

        Offsets stay valid, because this broker led without interruption.
        """
        self._leader_end_at_last_fetch = leader_end_offset
        self.last_caught_up_ms = self._last_fetch_ms = now_ms if is_in_sync else NEVER_MS

    def may_not_join(self) -> None:
        """Count the follower as caught up only after another fetch, because the controller rejected it for the ISR."""
        self.last_caught_up_ms = self._last_fetch_ms = NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """True if the follower has the leader's whole log, or had it at most ``max_lag_ms`` ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms
