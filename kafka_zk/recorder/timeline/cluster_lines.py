"""A cluster's events as lines of text, by time. Pure: the time is an argument.

Events of several processes arrive slightly out of order, so each is delayed for a moment. Equal events of one process
for several partitions share a line.
"""

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import IsrsChanged, LeadersElected
from kafka_zk.recorder.timeline.cluster_events import LeadershipSeen
from kafka_zk.recorder.timeline.events import OBSERVER
from kafka_zk.recorder.timeline.sentences import Mark, Sentence, sentence
from kafka_zk.recorder.zookeeper_health.events import ZooKeeperEvent

HOLD_BACK_MS = 400
TOGETHER_MS = 100
"""Maximum time between equal sentences of one process that share a line."""
REMEMBERED_COUNT = 8
"""Number of reported states that are remembered per partition."""
NAMED_COUNT = 6
_WHO_WIDTH = 12


@dataclass(slots=True)
class _Line:
    time_ms: int
    who: str
    said: Sentence
    items: list[str] = field(default_factory=list)


class ClusterEvents:
    """Events sorted by time, without the states that a controller has already reported."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Event]] = []
        self._numbers = itertools.count()
        self._written: dict[TopicPartition, deque[tuple[int, int, tuple[int, ...]]]] = {}  # leader, epoch, ISR

    def add(self, event: Event) -> None:
        heapq.heappush(self._waiting, (event.time_ms, next(self._numbers), event))
        if isinstance(event, LeadersElected | IsrsChanged):
            for tp, info in event.leadership:
                written = self._written.setdefault(tp, deque(maxlen=REMEMBERED_COUNT))
                written.append((info.leader, info.leader_epoch, tuple(info.isr)))

    def due(self, now_ms: int | None = None) -> Iterator[Event]:
        """The events that are due at ``now_ms`` (None: all)."""
        while self._waiting and (now_ms is None or self._waiting[0][0] <= now_ms - HOLD_BACK_MS):
            event = heapq.heappop(self._waiting)[2]
            if not isinstance(event, LeadershipSeen) or not self._is_told(event):
                yield event

    def _is_told(self, event: LeadershipSeen) -> bool:
        return (event.leader, event.leader_epoch, event.isr) in self._written.get(event.partition, ())


def time_of_day(time_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_ms / 1000)) + f".{time_ms % 1000:03}"


class ClusterLines:
    """Lines that begin with ``time_text`` of the event's time. ``verbose``: every step."""

    def __init__(
        self, events: ClusterEvents, *, verbose: bool, time_text: Callable[[int], str] = time_of_day
    ) -> None:
        self._events = events
        self._verbose = verbose
        self._time_text = time_text

    def lines(self, now_ms: int | None = None) -> Iterator[str]:
        """The lines that are due at ``now_ms`` (None: all)."""
        for line in self._grouped(self._events.due(now_ms)):
            more = len(line.items) - NAMED_COUNT
            named = ", ".join(line.items[:NAMED_COUNT]) + (f" and {more} more" if more > 0 else "")
            yield f"{self._time_text(line.time_ms)}  {line.who:<{_WHO_WIDTH}}  {line.said.with_items(named)}"

    def _grouped(self, events: Iterator[Event]) -> list[_Line]:
        found: list[_Line] = []
        latest: dict[tuple[str, str], _Line] = {}
        for event in events:
            said = sentence(event)
            if said is None or (said.mark is Mark.DETAIL and not self._verbose):
                continue
            who = _who(event)
            line = latest.get((who, said.text))
            if line is None or event.time_ms > line.time_ms + TOGETHER_MS or not said.items:
                line = latest[who, said.text] = _Line(event.time_ms, who, said)
                found.append(line)
            line.items += [item for item in said.items if item not in line.items]
        return found


def _who(event: Event) -> str:
    """``controller 0`` for broker 0 as the controller; ``znodes`` for the observer."""
    if isinstance(event, ZooKeeperEvent):
        return event.actor
    return "znodes" if event.actor == OBSERVER else event.actor.replace("-", " ")
