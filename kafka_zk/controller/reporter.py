"""Tells observers and the log what the controller did, many partitions in one line."""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka_zk.controller import events
from kafka_zk.controller.context import LeadershipInfo, Replica
from kafka_zk.controller.control_requests import Answer, ControlRequest
from kafka_zk.controller.effects import Refused
from kafka_zk.controller.events import ControllerEvent, Observe
from kafka_zk.controller.partition_state import ElectionStrategy
from kafka_zk.controller.states import PartitionState, ReplicaState
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.registry.events import wall_clock_ms
from kafka_zk.storage.types import TopicPartition

logger = logging.getLogger("kafka_zk.controller")

NAMED_COUNT = 5
"""So many partitions are named in a line of the log, the others are counted."""


class Reporter:
    """One per controller; ``cause`` is the event that is being processed."""

    def __init__(self, actor: str, observe: Observe, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._actor = actor
        self._observe = observe
        self._now_ms = now_ms
        self._known_errors: dict[tuple[int, str, TopicPartition | None], int] = {}
        self._unreachable: set[int] = set()
        self._refused: dict[tuple[TopicPartition, str], str] = {}  # partition and target -> the reason that was told
        self.cause = ""

    def event(self, kind: type[ControllerEvent], *fields: Any, cause: str | None = None, zxid: int = 0) -> None:
        """Tell the observer; ``fields`` are those that ``kind`` has beyond its base."""
        self._observe(kind(self._now_ms(), self._actor, self.cause if cause is None else cause, zxid, *fields))

    def info(self, text: str, *arguments: object) -> None:
        logger.info(f"[{self._actor}] {text}", *arguments)

    def partitions_moved(self, partitions: Collection[TopicPartition], state: PartitionState) -> None:
        for tp in partitions:
            self._refused.pop((tp, state.value), None)
        if partitions:
            self.event(events.PartitionsMoved, tuple(partitions), state)

    def forget(self, topics: Collection[str]) -> None:
        """These are gone; others of their names are another matter."""
        gone = set(topics)
        self._refused = {key: reason for key, reason in self._refused.items() if key[0].topic not in gone}
        self._known_errors = {
            key: code for key, code in self._known_errors.items() if key[2] is None or key[2].topic not in gone
        }

    def reign_over(self) -> None:
        """What was told does not count for the next reign."""
        self._refused.clear()
        self._known_errors.clear()
        self._unreachable.clear()

    def replicas_moved(self, replicas: Collection[Replica], state: ReplicaState) -> None:
        for replica in replicas:
            self._refused.pop((replica.partition, state.value), None)
        if replicas:
            self.event(events.ReplicasMoved, tuple(replicas), state)

    def leaders_elected(self, leadership: Mapping[TopicPartition, LeadershipInfo], strategy: ElectionStrategy) -> None:
        for tp in leadership:
            self._refused.pop((tp, PartitionState.ONLINE.value), None)
        if leadership:
            self.event(events.LeadersElected, tuple(leadership.items()))
            self.info("elected leaders (%s): %s", strategy.value, few(leadership))

    def refused(self, refused: Collection[Refused], target: str) -> None:
        """What is tried again and refused for the same reason is told once."""
        new = [entry for entry in refused if self._refused.get((entry.partition, target)) != entry.reason]
        if new:
            self._refused.update({(entry.partition, target): entry.reason for entry in new})
            self.event(events.ChangesRefused, tuple(new))
            logger.warning(
                "[%s] cannot go to %s: %s, because %s",
                self._actor,
                target,
                few([entry.partition for entry in new]),
                new[0].reason,
            )

    def answered(self, broker_id: int, request: ControlRequest, answer: Answer) -> None:
        """Each error of a broker and partition is logged once, until it is answered without."""
        self._unreachable.discard(broker_id)
        api = request.api_key.name
        new_errors = [
            (partition, code)
            for partition, code in [(None, answer.error_code), *answer.partition_errors.items()]
            if self._is_new_error((broker_id, api, partition), code)
        ]
        if not new_errors:
            self.event(events.RequestSent, broker_id, api)
            return
        named = ", ".join(f"{tp or 'request'}: {_error_name(code)}" for tp, code in new_errors[:NAMED_COUNT])
        text = f"{len(new_errors)} errors: {named}"
        self.event(events.RequestFailed, broker_id, api, cause=text)
        logger.error("[%s] broker %d answered %s with %s", self._actor, broker_id, api, text)

    def not_sent(self, broker_id: int, request: ControlRequest, error: Exception) -> None:
        """A request did not get through and is repeated; logged once until one does."""
        self.event(events.RequestFailed, broker_id, request.api_key.name, cause=repr(error))
        if broker_id not in self._unreachable:
            self._unreachable.add(broker_id)
            logger.warning("[%s] %s does not reach broker %d: %r", self._actor, request.api_key.name, broker_id, error)

    def _is_new_error(self, where: tuple[int, str, TopicPartition | None], code: int) -> bool:
        if code == ErrorCode.NONE:
            self._known_errors.pop(where, None)
            return False
        known = self._known_errors.get(where) == code
        self._known_errors[where] = code
        return not known


def few(things: Collection[object]) -> str:
    """The first NAMED_COUNT of them, and how many more there are."""
    names = [str(thing) for _, thing in zip(range(NAMED_COUNT), things, strict=False)]
    more = len(things) - len(names)
    return (", ".join(names) or "none") + (f" and {more} more" if more else "")


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
