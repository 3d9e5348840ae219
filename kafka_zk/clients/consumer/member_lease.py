"""The time until which a member certainly owns its partitions.

Java's consumer has no lease. With it two of our members never deliver records of one partition at the same time. Pure.
"""


class MemberLease:
    """A lease, which every response of the coordinator renews.

    It ends a session timeout after the request was sent, and a rebalance timeout after the last one that met no
    rebalance, so not later than the coordinator removes the member.
    """

    def __init__(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._calm_ms = 0
        self._until_ms = 0

    def holds(self, now_ms: int) -> bool:
        """Whether it is valid. Any thread."""
        return now_ms < self._until_ms

    def renew(self, sent_ms: int, *, is_calm: bool) -> None:
        """The coordinator has responded to a request sent at that time.

        ``is_calm``: no rebalance was under way. A member that does not join one in time is removed, heartbeats or not.
        """
        if is_calm:
            self._calm_ms = sent_ms
        until_ms = min(sent_ms + self._session_timeout_ms, self._calm_ms + self._rebalance_timeout_ms)
        self._until_ms = max(until_ms, self._until_ms)

    def end(self) -> None:
        """The member has left, or was expelled."""
        self._until_ms = 0
