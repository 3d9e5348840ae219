"""Notifies observers, fetchers and coordinators of this broker's roles."""

from collections.abc import Callable
from typing import TypeAlias

from twisted.logger import Logger

from kafka_zk.base.events import EventSource
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.protocol.errors import ErrorCode

RoleState: TypeAlias = tuple[Role, int, ErrorCode | None]
"""Role, leader epoch, and the error that rejects requests."""

_log = Logger()


def role_state(partition: Partition) -> RoleState:
    return partition.role, partition.leader_epoch, partition.refusal


class RoleListeners(list[Callable[[Partition], None]]):
    """Functions that are called in order when a replica's role or leader epoch changed, or its topic received an id."""

    def __init__(self, events: EventSource) -> None:
        super().__init__()
        self._events = events

    def notify(self, partition: Partition) -> None:
        """Call the listeners. An error is logged and does not affect other listeners."""
        for role_changed in self:
            try:
                role_changed(partition)
            except Exception:
                _log.failure("a listener failed on the new role of {tp}", tp=partition.tp)

    def report_if_changed(self, partition: Partition, before: RoleState, cause: str) -> None:
        """Emit RoleChanged and call the listeners if the role state has changed."""
        now = role_state(partition)
        if now != before:
            self._events.emit(RoleChanged, partition.tp, *now, cause=cause)
            self.notify(partition)
