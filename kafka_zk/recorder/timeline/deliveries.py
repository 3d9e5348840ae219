"""Who delivers which partition, since when, and who did before. Pure."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition

HISTORY = 1_000
"""How many changes of a partition are kept."""


class Silence(NamedTuple):
    """A partition that nobody delivered for ``silent_ms``, and by whom it was delivered before and after.

    ``noticed``: the member before died; it counts from when that was noticed, not from its last delivery. ``silent_ms``
    is None when nobody took it over, or when it was taken over before the observer noticed anything.
    """

    partition: TopicPartition
    before: str
    after: str | None
    silent_ms: int | None
    noticed: bool


class Change(NamedTuple):
    """From ``time_ms`` on ``member`` delivers the partition; None: nobody."""

    time_ms: int
    member: str | None


class Stop(NamedTuple):
    """Nobody has delivered a partition since then."""

    since_ms: int
    before: str
    noticed: bool


class Deliveries:
    """Of one group."""

    def __init__(self) -> None:
        self.by: dict[TopicPartition, str] = {}
        """The member that delivers each partition now."""
        self.stopped: dict[TopicPartition, Stop] = {}
        """Those that nobody delivers now, though somebody did."""
        self.history: dict[TopicPartition, deque[Change]] = {}

    def held_by(self, member: str) -> tuple[TopicPartition, ...]:
        return tuple(tp for tp, deliverer in self.by.items() if deliverer == member)

    def before(self) -> dict[TopicPartition, str]:
        """The member that delivers, or delivered last, each partition."""
        return {**self.by, **{tp: stop.before for tp, stop in self.stopped.items()}}

    def stop(self, time_ms: int, member: str, partitions: Iterable[TopicPartition], *, noticed: bool) -> None:
        """Those of the partitions that the member delivered are silent from now on."""
        for tp in partitions:
            if self.by.get(tp) == member:
                del self.by[tp]
                self.stopped[tp] = Stop(time_ms, member, noticed)
                self._remember(tp, time_ms, None)

    def start(self, time_ms: int, member: str, partition: TopicPartition) -> Silence | None:
        """The member delivers the partition; returns the silence that ends, if somebody had delivered it."""
        before = self.by.get(partition)
        self.by[partition] = member
        stop = self.stopped.pop(partition, None)
        if before != member:
            self._remember(partition, time_ms, member)
        if stop is not None:
            return Silence(partition, stop.before, member, time_ms - stop.since_ms, stop.noticed)
        if before in (None, member):
            return None
        return Silence(partition, before or "", member, None, True)  # its death is not known yet

    def _remember(self, partition: TopicPartition, time_ms: int, member: str | None) -> None:
        self.history.setdefault(partition, deque(maxlen=HISTORY)).append(Change(time_ms, member))


def together(silences: Iterable[Silence]) -> Silence:
    """Several silences of one partition, in order, as one: all of the time that it was silent."""
    first, *others = silences
    for each in others:
        known = [ms for ms in (first.silent_ms, each.silent_ms) if ms is not None]
        first = first._replace(
            after=each.after, silent_ms=sum(known) if known else None, noticed=first.noticed or each.noticed
        )
    return first
