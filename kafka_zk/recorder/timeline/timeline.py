"""A group's events in order, from traces and an observer, with its rebalances among them. Pure.

Events of several processes arrive slightly out of order, so each is delayed for a moment and sorted by time. A change
reported by the observer or the leader comes before the members' reactions, even if these have an earlier time. The time
is an argument.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any

from kafka_zk.base.events import Event
from kafka_zk.rebalance.events import GenerationWritten, RebalanceStarted
from kafka_zk.recorder.timeline.event_codec import encode
from kafka_zk.recorder.timeline.events import MemberGone
from kafka_zk.recorder.timeline.rebalances import GroupRebalance, Rebalances
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.registry.client.events import Reread

HOLD_BACK_MS = 250

Told = Traced | GroupRebalance


class Timeline:
    """``rebalances``: for the group's kind; default: a ZooKeeper group."""

    def __init__(self, rebalances: Rebalances | None = None) -> None:
        self.rebalances = rebalances or Rebalances()
        self.summaries: list[GroupRebalance] = []
        """The finished rebalances."""
        self.first_ms: int | None = None
        """The time of the first reported event."""
        self.listeners: list[Callable[[Told], None]] = []
        """Called with everything that ``due`` is about to yield."""
        self._waiting: list[tuple[int, int, Traced]] = []
        self._numbers = itertools.count()

    @property
    def calm(self) -> bool:
        return not self._waiting and not self.rebalances.in_progress

    def add(self, traced: Traced) -> None:
        heapq.heappush(self._waiting, (traced.event.time_ms, next(self._numbers), traced))

    def due(self, now_ms: int | None = None) -> Iterator[Told]:
        """The events that are due at ``now_ms`` (None: all), each rebalance after its last event."""
        for told in self._due(now_ms):
            for listener in self.listeners:
                listener(told)
            yield told

    def _due(self, now_ms: int | None) -> Iterator[Told]:
        while self._waiting and (now_ms is None or self._waiting[0][0] <= now_ms - HOLD_BACK_MS):
            time_ms, _, traced = heapq.heappop(self._waiting)
            if self.first_ms is None:
                self.first_ms = time_ms
            yield from self._over(self.rebalances.advance(time_ms))
            for each in (*self._take_causes(traced.event), traced):
                self.rebalances.add(each.event, each.request_count)
                yield each
        over = self.rebalances.end() if now_ms is None else self.rebalances.advance(now_ms - HOLD_BACK_MS)
        yield from self._over(over)

    def _over(self, summary: GroupRebalance | None) -> Iterator[GroupRebalance]:
        if summary is not None:
            self.summaries.append(summary)
            yield summary

    def _take_causes(self, event: Event) -> list[Traced]:
        """Remove the waiting events that must have preceded this one, and return them with this one's time."""
        is_cause = _causes_of(event)
        if is_cause is None:
            return []
        causes = [each for each in self._waiting if is_cause(each[2].event)]
        if causes:
            self._waiting = [each for each in self._waiting if not is_cause(each[2].event)]
            heapq.heapify(self._waiting)
        return [traced._replace(event=replace(traced.event, time_ms=event.time_ms)) for *_, traced in sorted(causes)]


def document(told: Told) -> dict[str, Any]:
    """A JSON document for programs: an event, or ``{"event":"GroupRebalance",…}``."""
    if isinstance(told, Traced):
        return {**encode(told.event), "requests": told.request_count}
    replaced = {
        "members": told.members._asdict(),
        "silences": [{**each._asdict(), "partition": str(each.partition)} for each in told.silences],
        "first_owners": {str(tp): member for tp, member in told.first_owners.items()},
    }
    return {"event": "GroupRebalance", **asdict(told), **replaced, "moved": len(told.moved)}


def _causes_of(event: Event) -> Callable[[Event], bool] | None:
    """Return a predicate for the events that must have preceded this one, whatever their times."""
    match event:
        case Reread() if event.path.endswith("/ids"):
            zxid = event.zxid
            return lambda other: isinstance(other, MemberGone) and 0 < other.zxid <= zxid
        case RebalanceStarted() if event.generation:
            generation = event.generation
            return lambda other: isinstance(other, GenerationWritten) and other.generation == generation
        case _:
            return None
