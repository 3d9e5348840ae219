"""Tracks which member delivers each partition, now and earlier. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition

HISTORY = 1_000
"""Number of changes that are remembered per partition."""


class Silence(NamedTuple):
    """A period in which no member delivered a partition, with the members that did before and after.

    ``noticed``: the previous member died, and the silence begins when the observer noticed the death, not after the
    last delivery. ``silent_ms``: None if no member took over the partition, or if one did before the observer noticed
    the death.
    """

    partition: TopicPartition
    before: str
    after: str | None
    silent_ms: int | None
    noticed: bool


class Change(NamedTuple):
    """``member`` delivers the partition from ``time_ms`` on; None: no member."""

    time_ms: int
    member: str | None


class Stop(NamedTuple):
    """No member has delivered the partition since ``since_ms``."""

    since_ms: int
    before: str
    noticed: bool


class Deliveries:
    def __init__(self) -> None:
        self.by: dict[TopicPartition, str] = {}
        self.stopped: dict[TopicPartition, Stop] = {}
        """Partitions that were delivered, but are not now."""
        self.history: dict[TopicPartition, deque[Change]] = {}

    def held_by(self, member: str) -> tuple[TopicPartition, ...]:
        return tuple(tp for tp, deliverer in self.by.items() if deliverer == member)

    def before(self) -> dict[TopicPartition, str]:
        return {**self.by, **{tp: stop.before for tp, stop in self.stopped.items()}}

    def stop(self, time_ms: int, member: str, partitions: Iterable[TopicPartition], *, noticed: bool) -> None:
        for tp in partitions:
            if self.by.get(tp) == member:
                del self.by[tp]
                self.stopped[tp] = Stop(time_ms, member, noticed)
                self._remember(tp, time_ms, None)

    def start(self, time_ms: int, member: str, partition: TopicPartition) -> Silence | None:
        """Begin a delivery. Returns the silence that it ends, if the partition was delivered before."""
        before = self.by.get(partition)
        self.by[partition] = member
        stop = self.stopped.pop(partition, None)
        if before != member:
            self._remember(partition, time_ms, member)
        if stop is not None:
            return Silence(partition, stop.before, member, time_ms - stop.since_ms, stop.noticed)
        if before in (None, member):
            return None
        return Silence(partition, before or "", member, None, True)  # the death of ``before`` is not noticed yet

    def _remember(self, partition: TopicPartition, time_ms: int, member: str | None) -> None:
        self.history.setdefault(partition, deque(maxlen=HISTORY)).append(Change(time_ms, member))


def together(silences: Iterable[Silence]) -> Silence:
    """Join consecutive silences of one partition."""
    first, *others = silences
    for each in others:
        known = [ms for ms in (first.silent_ms, each.silent_ms) if ms is not None]
        first = first._replace(
            after=each.after, silent_ms=sum(known) if known else None, noticed=first.noticed or each.noticed
        )
    return first
