"""Collects the effects of ``GroupMember``'s parts, in order. Pure."""

from kafka_zk.rebalance.effects import Effect, Note
from kafka_zk.rebalance.events import RebalanceEvent


class Outbox:
    """``cause``: the last change of the group. ``now_ms``: the time of the step."""

    def __init__(self, actor: str) -> None:
        self.actor = actor
        self.cause = "started"
        self.now_ms = 0.0
        self._effects: list[Effect] = []

    def do(self, effect: Effect) -> None:
        self._effects.append(effect)

    def note(self, kind: type[RebalanceEvent], *fields: object, cause: str | None = None, zxid: int = 0) -> None:
        """Add an event. ``fields``: its fields after the four that all events have."""
        told = self.cause if cause is None else cause
        self.do(Note(kind(int(self.now_ms), self.actor, told, zxid, *fields)))

    def take(self) -> list[Effect]:
        taken, self._effects = self._effects, []
        return taken
