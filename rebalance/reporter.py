"""Tells observers what a driver saw, and the log what somebody should look into."""

from collections.abc import Mapping

from twisted.logger import Logger

from kafka_zk.rebalance.events import (
    ClaimOverdue,
    CommitRefused,
    Committed,
    GroupEvent,
    GroupNotUnderstood,
    Observe,
    OffsetsOutdated,
    PlaceNotKept,
    RebalanceEvent,
    SettingsDoubtful,
    StrategyChosen,
)
from kafka_zk.registry.offsets import Refused
from kafka_zk.registry.session import Clock
from kafka_zk.storage.types import TopicPartition

_log = Logger()

_WARNINGS = (ClaimOverdue, GroupNotUnderstood, PlaceNotKept, SettingsDoubtful)


def harmless(observe: Observe) -> Observe:
    """An observer whose exceptions are logged: a full disk below a trace must not cost a member its partitions."""

    def observed(event: GroupEvent) -> None:
        try:
            observe(event)
        except Exception:
            _log.failure("an observer failed at {event}", event=event)

    return observed


class Reporter:
    """Of one member."""

    def __init__(self, observe: Observe, actor: str, clock: Clock) -> None:
        self._observe = observe
        self._actor = actor
        self._clock = clock

    def tell(self, event: RebalanceEvent) -> None:
        if isinstance(event, _WARNINGS) or (isinstance(event, StrategyChosen) and event.warning):
            _log.warn("{member}: {event}", member=self._actor, event=event)
        elif isinstance(event, OffsetsOutdated):
            partitions = ", ".join(map(str, event.partitions))
            _log.warn("{cause}: {partitions} start as auto.offset.reset says", cause=event.cause, partitions=partitions)
        self._observe(event)

    def event(self, kind: type[RebalanceEvent], cause: str, *fields: object) -> None:
        """``fields`` are those after the four that all events have."""
        self.tell(kind(int(self._clock.seconds() * 1000), self._actor, cause, 0, *fields))

    def commits(
        self, cause: str, offsets: Mapping[TopicPartition, int], outcomes: Mapping[TopicPartition, Refused | None]
    ) -> None:
        """What became of each; None: written."""
        written = {tp: offset for tp, offset in offsets.items() if outcomes[tp] is None}
        if written:
            self.event(Committed, cause, written)
        for tp, refused in outcomes.items():
            if refused is not None:
                self.event(CommitRefused, cause, tp, refused.reason)
