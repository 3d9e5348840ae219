"""One group with its time and its clients: carries out what the core wants done.

Effects are carried out in the order in which they came about, also when one of them leads to the next request: a
client that is answered may ask again at once.
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
"""Writes a group's record and calls ``stored`` when that is done."""

Tell = Callable[[str, Happened], None]
"""Told of a group (its id) and what happened to it."""

Changed = Callable[["LiveGroup"], None]
"""Told that a group has done something."""


def now_of(clock: Clock) -> Now:
    """The time as groups count it."""
    return Now(round(clock.seconds() * 1000), clock.wall_ms())


class LiveGroup:
    """A group of this broker; ``partition`` of ``__consumer_offsets`` holds it.

    ``counted_bytes``, ``counted_offsets_bytes``: what it holds of the bounds for all members and all offsets.
    """

    def __init__(
        self,
        group: Group,
        partition: int,
        clock: Clock,
        replies: Replies,
        store: Store,
        tell: Tell,
        changed: Changed = lambda live: None,
    ) -> None:
        self.group = group
        self.counted_bytes = 0
        self.counted_offsets_bytes = 0
        self.partition = partition
        self._clock = clock
        self._replies = replies
        self._store = store
        self._tell = tell
        self._changed = changed
        self._effects: deque[Effect] = deque()
        self._is_busy = False
        self._timer: Any = None
        self._timer_ms = 0

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Do what the core wants done, and wake it in time."""
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
        """Look at the group again when its earliest deadline may pass."""
        deadline_ms = self.group.earliest_deadline_ms
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0.0, deadline_ms / 1000 - self._clock.seconds())
        self._timer = self._clock.callLater(delay_s, self._tick)
        self._timer_ms = deadline_ms

    def close(self, error: ErrorCode) -> None:
        """The group is not this broker's any more, or it is removed: waiting requests are answered with ``error``."""
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
            self._tell(self.group.group_id, effect)
