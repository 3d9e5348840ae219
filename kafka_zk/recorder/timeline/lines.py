"""A timeline as lines of text: one per rebalance, or every step. Pure."""

import time
from collections.abc import Iterator

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import ControllerEvent
from kafka_zk.broker.replica.events import ReplicaEvent
from kafka_zk.broker.transaction.events import TransactionChanged
from kafka_zk.recorder.timeline.events import FIRST_LOOK, GenerationSeen, MemberSeen, OwnersSeen
from kafka_zk.recorder.timeline.names import GroupNames, listed
from kafka_zk.recorder.timeline.rebalances import GroupRebalance
from kafka_zk.recorder.timeline.sentences import Mark, sentence
from kafka_zk.recorder.timeline.summary import Summaries, enumerated
from kafka_zk.recorder.timeline.timeline import Timeline, Told
from kafka_zk.registry.znodes.consumers import consumer_of

_WHO_WIDTH = 10
_OF_CLUSTERS = (ControllerEvent, ReplicaEvent, TransactionChanged)
"""Events that concern no group."""
_LONG_MS = 2_000
"""A longer rebalance is reported before it ends."""


class RebalanceLines:
    """One line for each rebalance and each warning of a member. Lines begin with the time of day."""

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        self._summaries = Summaries(group_id)
        self._names = GroupNames(group_id)
        self._timeline = timeline
        self._found: dict[str, list[TopicPartition]] = {}  # member -> its partitions when the observer began
        self._reported_long: int | None = None  # start of the rebalance that was reported as long

    def lines(self, now_ms: int | None = None) -> Iterator[str]:
        """The lines that are due at ``now_ms`` (None: all)."""
        for told in self._timeline.due(now_ms):
            if isinstance(told, GroupRebalance):
                yield from self._first_look(told.began_ms)
                yield f"{_time_of_day(told.began_ms)}  {self._summaries.line(told)}"
            else:
                yield from self._of_event(told.event)
        if now_ms is None or not self._timeline.rebalances.in_progress:
            yield from self._first_look(now_ms)
        yield from self._unfinished(now_ms)

    def _of_event(self, event: Event) -> Iterator[str]:
        if isinstance(event, MemberSeen) and event.cause == FIRST_LOOK:
            self._found.setdefault(event.consumer_id, [])
        elif isinstance(event, OwnersSeen) and event.cause == FIRST_LOOK:
            self._found.setdefault(consumer_of(event.owner), []).extend(event.offsets)
        elif isinstance(event, GenerationSeen) and event.cause == FIRST_LOOK:
            self._found |= {each.member: list(each.assigned) for each in event.members}
        elif (said := sentence(event, self._names)) is not None and said.mark is Mark.WARNING:
            yield f"{_time_of_day(event.time_ms)}  {self._names.member(event.actor)}: {said.mark.value}{said}"

    def _first_look(self, now_ms: int | None) -> Iterator[str]:
        """The members' first partitions. Members with traces are left out, because they report more."""
        found = {member: tps for member, tps in self._found.items() if member not in self._timeline.rebalances.traced}
        self._found.clear()
        if found:
            has = [f"{self._summaries.name(member)} has {listed(tps)}" for member, tps in sorted(found.items())]
            prefix = f"{_time_of_day(now_ms)}  " if now_ms is not None else ""
            yield f"{prefix}at the first look {enumerated(has)}"

    def _unfinished(self, now_ms: int | None) -> Iterator[str]:
        """A line for a rebalance that is not over. ``now_ms``: if None, the end of the timeline."""
        rebalances = self._timeline.rebalances
        began_ms = rebalances.began_ms
        if began_ms is None:
            return
        takes = "is not over"
        if now_ms is not None:
            if began_ms == self._reported_long or now_ms < began_ms + _LONG_MS:
                return
            takes = f"takes more than {_LONG_MS // 1000} s"
            self._reported_long = began_ms
        stopped = rebalances.deliveries.stopped
        waits = [
            f"{self._summaries.names(rebalances.busy)} not done" if rebalances.busy else "",
            f"no member reads {listed(stopped)}" if stopped else "",
        ]
        told = "; ".join(each for each in waits if each) or "members come and go"
        yield f"{_time_of_day(began_ms)}  a rebalance {takes}: {told}"


class StepLines:
    """Every event with the seconds since the first one, and all details of each rebalance."""

    def __init__(self, group_id: str, timeline: Timeline) -> None:
        self._summaries = Summaries(group_id)
        self._names = GroupNames(group_id)
        self._timeline = timeline

    def lines(self, now_ms: int | None = None) -> Iterator[str]:
        """The lines that are due at ``now_ms`` (None: all)."""
        for told in self._timeline.due(now_ms):
            yield from self.of(told)

    def of(self, told: Told) -> Iterator[str]:
        if isinstance(told, GroupRebalance):
            indent = " " * 11
            strategy = f" ({told.strategy})" if told.strategy else ""
            yield f"{indent}── rebalance {told.number}{strategy}, {told.duration_ms} ms: {self._summaries.line(told)}"
            for detail in self._summaries.details(told):
                yield f"{indent}   {detail}"
            return
        said = None if isinstance(told.event, _OF_CLUSTERS) else sentence(told.event, self._names)
        if said is not None:
            offset_ms = told.event.time_ms - (self._timeline.first_ms or 0)
            warning = Mark.WARNING.value if said.mark is Mark.WARNING else ""
            yield f"{offset_ms / 1000:>9.3f}  {self._names.member(told.event.actor):<{_WHO_WIDTH}}  {warning}{said}"


def _time_of_day(time_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ms / 1000))
