"""What a leader knows of one follower, from the follower's fetches and nothing else.

A fetch from an offset says that the follower has everything before it. The follower was *caught up* at the time of a
fetch that asked for the leader's log end; or that asked for what was the end at its previous fetch, then as of that
one: else a steady stream of small batches would keep it out of the ISR for ever. All times are ms on a clock that is
never set. Pure. Source: Replica.scala@3.9. Tests: tests/kafka_zk/broker/replica/test_remote_replicas.py.
"""

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)


class RemoteReplica:
    """``log_end_offset`` and ``log_start_offset`` are the follower's, UNKNOWN_OFFSET before its first fetch."""

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
        self._leader_end_at_last_fetch = 0

    def record_fetch(
        self, offset: int, log_start_offset: int, now_ms: int, leader_end_offset: int, broker_epoch: int
    ) -> None:
        """The follower fetches from ``offset``, while the leader's log ends at ``leader_end_offset``."""
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
        """The leader was elected again: a member of the ISR has its time from now on, another one has to fetch first.

        What the follower has is known still, since nobody else led it meanwhile.
        """
        self._leader_end_at_last_fetch = leader_end_offset
        self.last_caught_up_ms = self._last_fetch_ms = now_ms if is_in_sync else NEVER_MS

    def may_not_join(self) -> None:
        """It was not let into the ISR: it does not count as caught up before it fetches again."""
        self.last_caught_up_ms = self._last_fetch_ms = NEVER_MS

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has all of the leader's log, or had at a time not longer ago than ``max_lag_ms``."""
        return self.log_end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= max_lag_ms
