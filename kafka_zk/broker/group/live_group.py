"""A group with its timer and waiting clients: carries out the core's effects.

Effects are carried out in order, even if one of them causes another request, for example because a client reacts to a
response.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from kafka_zk.base.clock import Clock
from kafka_zk.broker.coordinator.replies import Replies
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.requests import AnswerJoin, AnswerSync, Effect, Happened, Now, StoreGroup
from kafka_zk.protocol.errors import ErrorCode

_ANSWERS = (AnswerJoin, AnswerSync)

Store = Callable[["LiveGroup", StoreGroup], None]
"""Writes the record, then calls ``Group.stored``."""

Report = Callable[[str, Happened], None]
"""Called with a group id and its event."""

Changed = Callable[["LiveGroup"], None]
"""Called when effects were carried out."""


def now_of(clock: Clock) -> Now:
    """The current time as the core expects it."""
    return Now(round(clock.seconds() * 1000), clock.wall_ms())


class LiveGroup:
    """A group of this broker, stored in ``partition`` of ``__consumer_offsets``. ``counted_bytes``,
    ``counted_offsets_bytes``: the memory that is counted for its members and for its offsets."""

    def __init__(
        self,
        group: Group,
        partition: int,
        clock: Clock,
        replies: Replies,
        store: Store,
        report: Report,
        changed: Changed = lambda live: None,
    ) -> None:
        self.group = group
        self.counted_bytes = 0
        self.counted_offsets_bytes = 0
        self.partition = partition
        self._clock = clock
        self._replies = replies
        self._store = store
        self._report = report
        self._changed = changed
        self._effects: deque[Effect] = deque()
        self._is_busy = False
        self._timer: Any = None
        self._timer_ms = 0

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out effects, then set the timer for the next deadline."""
        self._effects.extend(effects)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._effects:
                self._do(self._effects.popleft())
        finally:
            self._is_busy = False
        self.wake_in_time()
        self._changed(self)

    def wake_in_time(self) -> None:
        """Make the timer fire at the group's earliest deadline."""
        deadline_ms = self.group.earliest_deadline_ms
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0.0, deadline_ms / 1000 - self._clock.seconds())
        self._timer = self._clock.callLater(delay_s, self._tick)
        self._timer_ms = deadline_ms

    def close(self, error: ErrorCode) -> None:
        """Stop the timer and answer waiting requests with ``error``."""
        self.carry_out(self.group.unload(error))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        self.carry_out(self.group.tick(now_of(self._clock)))

    def _do(self, effect: Effect) -> None:
        if isinstance(effect, _ANSWERS):
            self._replies.answer(effect.reply, effect.result)
        elif isinstance(effect, StoreGroup):
            self._store(self, effect)
        else:
            self._report(self.group.group_id, effect)
