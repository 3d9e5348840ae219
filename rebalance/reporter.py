"""Reports a driver's observations as events, and logs those that operators should investigate."""

from collections.abc import Mapping

from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.events import EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import (
    ClaimOverdue,
    CommitRefused,
    Committed,
    GroupNotUnderstood,
    OffsetsOutdated,
    PlaceNotKept,
    RebalanceEvent,
    SettingsDoubtful,
    StrategyChosen,
)
from kafka_zk.registry.offsets import OffsetRefused

_log = Logger()

_WARNINGS = (ClaimOverdue, GroupNotUnderstood, PlaceNotKept, SettingsDoubtful)


class GroupReporter:
    def __init__(self, source: EventSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock

    def emit(self, event: RebalanceEvent) -> None:
        if isinstance(event, _WARNINGS) or (isinstance(event, StrategyChosen) and event.warning):
            _log.warn("{member}: {event}", member=self._source.actor, event=event)
        elif isinstance(event, OffsetsOutdated):
            partitions = ", ".join(map(str, event.partitions))
            _log.warn("{cause}: {partitions} start as auto.offset.reset says", cause=event.cause, partitions=partitions)
        self._source.emit_event(event)

    def event(self, kind: type[RebalanceEvent], cause: str, *fields: object) -> None:
        """Report an event. ``fields``: its fields after the four that all events have."""
        self.emit(kind(self._clock.wall_ms(), self._source.actor, cause, 0, *fields))

    def commits(
        self, cause: str, offsets: Mapping[TopicPartition, int], outcomes: Mapping[TopicPartition, OffsetRefused | None]
    ) -> None:
        """Report a commit. ``outcomes``: None for a written offset."""
        written = {tp: offset for tp, offset in offsets.items() if outcomes[tp] is None}
        if written:
            self.event(Committed, cause, written)
        for tp, refused in outcomes.items():
            if refused is not None:
                self.event(CommitRefused, cause, tp, refused.reason)
