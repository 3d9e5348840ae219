"""The request in flight to the coordinator, and the time of the next one. Pure."""

from kafka_zk.clients.consumer.group_effects import CountPartitions, SendHeartbeat, SendJoin, SendSync


class MemberRequests:
    """A response carries the number of its request."""

    def __init__(self) -> None:
        self.is_coordinator_known = False
        self.retry_ms = 0
        """Earliest time of the next JoinGroup."""
        self.heartbeat: SendHeartbeat | None = None
        self.heartbeat_due_ms = 0
        self.sent_ms = 0
        self._awaited: SendJoin | SendSync | CountPartitions | None = None
        self._number = 0

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def sent(self, request: SendJoin | SendSync | CountPartitions, now_ms: int) -> None:
        self._awaited, self.sent_ms = request, now_ms

    def is_answered(self, number: int, kind: type[SendJoin] | type[SendSync] | type[CountPartitions]) -> bool:
        if not isinstance(self._awaited, kind) or self._awaited.number != number:
            return False
        self._awaited = None
        return True

    def forget(self) -> None:
        self._awaited = self.heartbeat = None
