"""The time until which a member certainly owns its partitions.

Java's consumer has no such lease. The lease ensures that two members of this package never deliver records of one
partition at the same time. Pure.
"""


class MemberLease:
    """Every response of the coordinator renews it.

    It ends at the earlier of two times: one session timeout after the last answered request was sent, or one rebalance
    timeout after the last request whose response reported no rebalance. The coordinator does not remove the member
    before that time.
    """

    def __init__(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._calm_ms = 0
        self._until_ms = 0

    def holds(self, now_ms: int) -> bool:
        return now_ms < self._until_ms

    def renew(self, sent_ms: int, *, is_calm: bool) -> None:
        """The coordinator responded to a request sent at ``sent_ms``.

        ``is_calm``: the response reports no rebalance. The coordinator removes a member that does not join one in time,
        even if it sends heartbeats.
        """
        if is_calm:
            self._calm_ms = sent_ms
        until_ms = min(sent_ms + self._session_timeout_ms, self._calm_ms + self._rebalance_timeout_ms)
        self._until_ms = max(until_ms, self._until_ms)

    def end(self) -> None:
        self._until_ms = 0
