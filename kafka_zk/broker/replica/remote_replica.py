"""A leader's knowledge of one follower, which comes only from the follower's fetches.

A fetch from an offset means that the follower has all records before it. The follower is *caught up* at the time of a
fetch from the leader's log end offset. If it fetches from the offset that was the log end at its previous fetch, it was
caught up at that previous fetch; otherwise a steady stream of small batches would keep it out of the ISR. Times are ms
on a monotonic clock. Pure. Source: Replica.scala@3.9. Tests: tests/kafka_zk/broker/replica/test_remote_replicas.py.
"""

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)


class RemoteReplica:
    """One follower.

    Attributes:
        broker_epoch: from the last fetch; -1 if unknown. log_end_offset, log_start_offset: from the last fetch;
            UNKNOWN_OFFSET before the first.
        last_caught_up_ms: time when the follower was last known to be caught up; NEVER_MS if it has to fetch first.
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
        """Record a fetch from ``offset``. The leader's log ends at ``leader_end_offset``."""
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
        """Begin a new leader epoch. A member of the ISR counts as caught up now; other followers have to fetch first.

        The follower's offsets stay valid, because this broker led without interruption.
        """
        self._leader_end_at_last_fetch = leader_end_offset
        self.last_caught_up_ms = self._last_fetch_ms = now_ms if is_in_sync else NEVER_MS

    def may_not_join(self) -> None:
        """Let the follower count as caught up only after another fetch, because the controller rejected it for the
        ISR."""
        self.last_caught_up_ms = self._last_fetch_ms = NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """True if the follower has the leader's whole log, or had it within the last ``max_lag_ms``."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms
