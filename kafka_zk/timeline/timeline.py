"""A group's events, from its members' traces and from an observer, as lines for people: a live timeline.

Events of several processes come a little out of order; each is held back for a moment and sorted by its time. Pure: the
time is given.
"""

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kafka_zk.timeline.event_codec import encode
from kafka_zk.timeline.narrator import Narrator, listed, short_name
from kafka_zk.timeline.rebalances import GroupRebalance, Rebalances, Silence
from kafka_zk.timeline.trace_file import Traced

HOLD_BACK_MS = 250
_WHO_WIDTH = 10


class Timeline:
    """Collects events of one group and tells them in order.

    ``lines`` gives text, ``documents`` the same for programs; use one of them.
    """

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._narrator = Narrator(group_id)
        self._rebalances = Rebalances()
        self._waiting: list[tuple[int, int, Traced]] = []
        self._numbers = itertools.count()
        self._first_ms: int | None = None
        self.summaries: list[GroupRebalance] = []
        """Every rebalance that is over."""

    @property
    def calm(self) -> bool:
        """Whether all that was added is told and no rebalance is in progress."""
        return not self._waiting and not self._rebalances.in_progress

    def add(self, traced: Traced) -> None:
        heapq.heappush(self._waiting, (traced.event.time_ms, next(self._numbers), traced))

    def lines(self, now_ms: int | None = None) -> Iterator[str]:
        """What is due now, one line each (None: all that is left); a rebalance's summary after its last event."""
        for traced, summary in self._due(now_ms):
            event = traced.event
            sentence = self._narrator.sentence(event)
            if sentence is not None:
                yield f"{self._offset(event.time_ms)}  {self._narrator.who(event):<{_WHO_WIDTH}}  {sentence}"
            if summary is not None:
                yield from self._summary_lines(summary)

    def documents(self, now_ms: int | None = None) -> Iterator[dict[str, Any]]:
        """The same as JSON objects: each event, and ``{"event":"GroupRebalance",…}`` after the last of a rebalance."""
        for traced, summary in self._due(now_ms):
            yield {**encode(traced.event), "requests": traced.request_count}
            if summary is not None:
                yield _summary_document(summary)

    def _due(self, now_ms: int | None) -> Iterator[tuple[Traced, GroupRebalance | None]]:
        while self._waiting and (now_ms is None or self._waiting[0][0] <= now_ms - HOLD_BACK_MS):
            traced = heapq.heappop(self._waiting)[2]
            summary = self._rebalances.add(*traced)
            if summary is not None:
                self.summaries.append(summary)
            yield traced, summary

    def _offset(self, time_ms: int) -> str:
        if self._first_ms is None:
            self._first_ms = time_ms
        return f"{(time_ms - self._first_ms) / 1000:>9.3f}"

    def _summary_lines(self, summary: GroupRebalance) -> Iterator[str]:
        indent = " " * 11
        strategy = f" ({summary.strategy})" if summary.strategy else ""
        causes = "; ".join(self._shortened(cause) for cause in summary.causes) or "a first assignment"
        yield f"{indent}── rebalance {summary.number}{strategy}: {summary.duration_ms} ms, because: {causes}"
        moved = summary.moved
        yield (
            f"{indent}   {len(moved)} partitions moved, {len(summary.silences) - len(moved)} stopped and stayed, "
            f"{summary.untouched_count} never stopped, {len(summary.first_owners)} have a first owner"
        )
        for each in sorted(summary.silences, key=lambda silence: -(silence.silent_ms or 0)):
            yield f"{indent}   {self._silence(each)}"
        requests = ", ".join(f"{self._short(member)} {count}" for member, count in summary.requests.items())
        fired = ", ".join(f"{self._short(member)} {count}" for member, count in summary.notifications.items())
        if requests:
            yield f"{indent}   ZooKeeper requests: {sum(summary.requests.values())} ({requests})"
        if fired:
            yield f"{indent}   watches fired: {sum(summary.notifications.values())} ({fired})"

    def _silence(self, silence: Silence) -> str:
        before = self._short(silence.before)
        if silence.after is None:
            return f"{listed([silence.partition])} stopped with {before}; no member is left to take it"
        after = self._short(silence.after)
        path = f"{before} → {after}" if before != after else f"stays with {after}"
        if silence.silent_ms is None:
            return f"{listed([silence.partition])} was taken over before its owner was seen to be gone ({path})"
        since = " after its owner was seen to be gone" if silence.noticed else ""
        return f"{listed([silence.partition])} silent for {silence.silent_ms} ms{since} ({path})"

    def _short(self, member: str) -> str:
        return short_name(self._group_id, member)

    def _shortened(self, cause: str) -> str:
        return " ".join(self._short(word) for word in cause.split(" "))


def _summary_document(summary: GroupRebalance) -> dict[str, Any]:
    silences = [{**each._asdict(), "partition": str(each.partition)} for each in summary.silences]
    replaced = {"silences": silences, "first_owners": [str(tp) for tp in summary.first_owners]}
    return {"event": "GroupRebalance", **asdict(summary), **replaced, "moved": len(summary.moved)}
