"""Reports the controller's actions to observers and to the log, many partitions per line."""

from collections.abc import Collection, Mapping
from typing import Any

from twisted.logger import Logger

from kafka_zk.base.events import EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events
from kafka_zk.broker.controller.context import LeadershipInfo, Replica
from kafka_zk.broker.controller.control_requests import Answer, ControlRequest
from kafka_zk.broker.controller.effects import FailedChange
from kafka_zk.broker.controller.events import ControllerEvent
from kafka_zk.broker.controller.partition_state import ElectionStrategy
from kafka_zk.broker.controller.states import PartitionState, ReplicaState
from kafka_zk.protocol.errors import ErrorCode

_log = Logger("kafka_zk.broker.controller")

NAMED_COUNT = 5
"""Number of partitions that a log line names; it counts the others."""

UNREACHABLE_COUNT = 20
"""Number of unreachable brokers that get a log line each; one more line covers the others."""


class ControllerReporter:
    """``cause``: name of the event in progress."""

    def __init__(self, source: EventSource) -> None:
        self.source = source
        self._actor = source.actor
        self._known_errors: dict[tuple[int, str, TopicPartition | None], int] = {}
        self._unreachable: set[int] = set()
        self._many_are_unreachable = False
        self._refused: dict[tuple[TopicPartition, str], str] = {}  # (partition, target) -> logged reason
        self._not_logged: dict[str, list[FailedChange]] = {}
        self.cause = ""

    def event(self, kind: type[ControllerEvent], *fields: Any, cause: str | None = None, zxid: int = 0) -> None:
        """Emit an event. ``fields``: the fields that ``kind`` adds."""
        self.source.emit(kind, *fields, cause=self.cause if cause is None else cause, zxid=zxid)

    def info(self, text: str, *arguments: object) -> None:
        _log.info("[{actor}] {text}", actor=self._actor, text=text % arguments)

    def partitions_moved(self, partitions: Collection[TopicPartition], state: PartitionState) -> None:
        for tp in partitions:
            self._refused.pop((tp, state.value), None)
        if partitions:
            self.event(events.PartitionsMoved, tuple(partitions), state)

    def forget(self, topics: Collection[str]) -> None:
        """Forget deleted topics, because new topics may get their names."""
        gone = set(topics)
        self._refused = {key: reason for key, reason in self._refused.items() if key[0].topic not in gone}
        self._known_errors = {
            key: code for key, code in self._known_errors.items() if key[2] is None or key[2].topic not in gone
        }

    def forget_all(self) -> None:
        """Forget all reported problems, so that the next term reports everything again."""
        self._refused.clear()
        self._known_errors.clear()
        self._unreachable.clear()
        self._many_are_unreachable = False

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
            self.info("elected leaders (%s): %s", strategy.value, shortened(leadership))

    def isrs_changed(self, leadership: Mapping[TopicPartition, LeadershipInfo]) -> None:
        if leadership:
            self.event(events.IsrsChanged, tuple(leadership.items()))
            self.info("ISRs: %s", shortened([f"{tp} {info.isr}" for tp, info in leadership.items()]))

    def proposals_refused(self, broker_id: int, refused: Mapping[TopicPartition, ErrorCode]) -> None:
        """Report rejected proposals. Depending on the code, the leader retries or waits for LeaderAndIsr."""
        if refused:
            self.info(
                "ISRs that broker %d proposed are refused: %s",
                broker_id,
                shortened([f"{tp} {code.name}" for tp, code in refused.items()]),
            )

    def refused(self, refused: Collection[FailedChange], target: str) -> None:
        """Report each reason once per partition and target; ``log_refused`` logs the changes."""
        new = [entry for entry in refused if self._refused.get((entry.partition, target)) != entry.reason]
        if new:
            self._refused.update({(entry.partition, target): entry.reason for entry in new})
            self.event(events.ChangesRefused, tuple(new))
            self._not_logged.setdefault(target, []).extend(new)

    def log_refused(self) -> None:
        """Log the changes refused since the last call, one line per target."""
        refused, self._not_logged = self._not_logged, {}
        for target, changes in refused.items():
            reason = changes[0].reason
            others = sum(change.reason != reason for change in changes)
            _log.warn(
                "[{actor}] {target} is impossible for {partitions}, because {reason}{others}",
                actor=self._actor,
                target=target,
                partitions=shortened([change.partition for change in changes]),
                reason=reason,
                others=f"; {others} of them for other reasons" if others else "",
            )

    def answered(self, broker_id: int, request: ControlRequest, answer: Answer) -> None:
        """Log each error of a broker or partition once until it is gone.

        A partition's STALE_CONTROLLER_EPOCH is not an error, because Kafka's brokers return it if they already have the
        leader epoch.
        """
        self._unreachable.discard(broker_id)
        self._many_are_unreachable &= len(self._unreachable) > UNREACHABLE_COUNT // 2
        api = request.api_key.name
        new_errors = [
            (partition, code)
            for partition, code in [(None, answer.error_code), *answer.partition_errors.items()]
            if not (partition is not None and code == ErrorCode.STALE_CONTROLLER_EPOCH)
            and self._is_new_error((broker_id, api, partition), code)
        ]
        if not new_errors:
            self.event(events.RequestSent, broker_id, api)
            return
        named = ", ".join(f"{tp or 'request'}: {_error_name(code)}" for tp, code in new_errors[:NAMED_COUNT])
        text = f"{len(new_errors)} errors: {named}"
        self.event(events.RequestFailed, broker_id, api, cause=text)
        _log.error(
            "[{actor}] broker {broker_id} answered {api} with {errors}",
            actor=self._actor,
            broker_id=broker_id,
            api=api,
            errors=text,
        )

    def not_sent(self, broker_id: int, request: ControlRequest, error: Exception) -> None:
        """Report a request that failed and will be repeated, once per broker until a request succeeds."""
        self.event(events.RequestFailed, broker_id, request.api_key.name, cause=repr(error))
        if broker_id not in self._unreachable:
            self._unreachable.add(broker_id)
            if len(self._unreachable) > UNREACHABLE_COUNT:
                self._many_unreachable()
                return
            _log.warn(
                "[{actor}] {api} did not reach broker {broker_id}: {error!r}",
                actor=self._actor,
                api=request.api_key.name,
                broker_id=broker_id,
                error=error,
            )

    def _many_unreachable(self) -> None:
        """Report that many brokers are unreachable, once until half of the brokers are reachable again."""
        if not self._many_are_unreachable:
            self._many_are_unreachable = True
            _log.warn(
                "[{actor}] more than {count} brokers cannot be reached; the others are not named in the log",
                actor=self._actor,
                count=UNREACHABLE_COUNT,
            )

    def _is_new_error(self, where: tuple[int, str, TopicPartition | None], code: int) -> bool:
        if code == ErrorCode.NONE:
            self._known_errors.pop(where, None)
            return False
        known = self._known_errors.get(where) == code
        self._known_errors[where] = code
        return not known


def shortened(things: Collection[object]) -> str:
    """The first NAMED_COUNT items and the number of further ones."""
    names = [str(thing) for _, thing in zip(range(NAMED_COUNT), things, strict=False)]
    more = len(things) - len(names)
    return (", ".join(names) or "none") + (f" and {more} more" if more else "")


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
