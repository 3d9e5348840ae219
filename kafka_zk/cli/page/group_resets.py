"""The page resets a group's offsets as ``kafka-zk groups reset-offsets`` does: first a plan, then exactly that plan."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_zk.base.integers import NATURAL_INT64
from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_kinds import GroupKind, Groups
from kafka_zk.cli.groups.group_reset import Target, chosen_partitions, new_offsets
from kafka_zk.cli.page.connection import PageConnection
from kafka_zk.cli.page.plans import Plans
from kafka_zk.cli.page.unclear import EXPECTED
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.recorder.web.operations import Act, Done, PerhapsDone
from kafka_zk.registry.client.errors import RegistryError

if TYPE_CHECKING:
    from kafka_zk.recorder.recording.documents import Document

PLAN, RESET = "plan-reset", "reset-offsets"
_WITHOUT_VALUE = ("earliest", "latest", "current")
_WITH_VALUE = {"time": "time_ms", "shift": "shift_by", "offset": "offset"}


class ResetPlan(NamedTuple):
    """``current``: the committed offsets when the plan was made; None where there was none."""

    group: str
    kind: GroupKind
    current: Mapping[TopicPartition, int | None]
    new: Mapping[TopicPartition, int]


class GroupResets:
    """Both acts raise CommandFailed, KafkaError and RegistryError; also while the group has live members."""

    def __init__(self, connection: PageConnection) -> None:
        self._connection = connection
        self._plans: Plans[ResetPlan] = Plans()

    def acts(self) -> Mapping[str, Act]:
        return {PLAN: self.plan, RESET: self.carry_out}

    def plan(self, request: "Document") -> Done:
        """The dry run.

        The request has the ``group``, its ``type`` ("": the only group of that name), and ``topics`` in the form
        ``topic:0,1`` (none: all with offsets). ``to`` is earliest, latest, current, time, shift or offset; the last
        three have a number in ``value``.
        """
        group, target = str(request.get("group", "")), _target(request)
        topics = _topics(request)
        with self._connection.open(_kind(request)) as connected:
            side = connected.access.the_one(group)
            side.refuse_live(group)
            current = side.offsets(group)
            with connected.access.brokers.asked() as admin:
                new = new_offsets(admin, chosen_partitions(admin, topics, current), current, target)
            told = connected.told(side.kind)
        if not new:
            raise CommandFailed(f"group {group} has no offsets of existing topics: there is nothing to reset")
        plan = ResetPlan(group, side.kind, {tp: current.get(tp) for tp in new}, new)
        rows = [
            {"topic": tp.topic, "partition": tp.partition, "current": plan.current[tp], "new": offset}
            for tp, offset in new.items()
        ]
        return Done({"plan": self._plans.add(plan), "rows": rows, **told})

    def carry_out(self, request: "Document") -> Done:
        """Store exactly the offsets of the ``plan``, unless the group has committed since then."""
        plan = self._plans.take(request.get("plan"))
        with self._connection.open(plan.kind) as connected:
            side = connected.access.the_one(plan.group)
            side.refuse_live(plan.group)
            current = side.offsets(plan.group)
            if {tp: current.get(tp) for tp in plan.new} != plan.current:
                raise CommandFailed(f"the offsets of group {plan.group} have changed since the plan: make it again")
            told = connected.told(plan.kind)
            try:
                side.store(plan.group, plan.new)
            except (CommandFailed, KafkaError, RegistryError) as error:
                if _is_untouched(side, plan):
                    raise
                done = Done({}, RESET, f"group {plan.group}", told["principal"], EXPECTED)
                raise PerhapsDone(
                    f"{error}; other offsets of the plan may have been reset: make it again", done
                ) from error
        topics = ", ".join(sorted({tp.topic for tp in plan.new}))
        expected = f"its members start at the new offsets of {topics}"
        return Done({**told, "count": len(plan.new)}, RESET, f"group {plan.group}", told["principal"], expected)


def _is_untouched(side: Groups, plan: ResetPlan) -> bool:
    """False also if that is unknown: brokers store the offsets of a request one by one, and refuse some."""
    try:
        current = side.offsets(plan.group)
    except (CommandFailed, KafkaError, RegistryError):
        return False
    return {tp: current.get(tp) for tp in plan.new} == plan.current


def _kind(request: "Document") -> GroupKind | None:
    try:
        return GroupKind(str(request["type"])) if request.get("type") else None
    except ValueError:
        raise CommandFailed(f"the type of a group is broker or zookeeper, not {request['type']!r}") from None


def _topics(request: "Document") -> list[str]:
    topics = request.get("topics", [])
    if not isinstance(topics, list):
        raise CommandFailed("topics must be a list")
    return topics


def _target(request: "Document") -> Target:
    to, value = request.get("to"), request.get("value")
    given: dict[str, Any] = {}
    if to in _WITHOUT_VALUE:
        given = {str(to): True}
    elif to in _WITH_VALUE and type(value) is int and (abs(value) if to == "shift" else value) in NATURAL_INT64:
        given = {_WITH_VALUE[str(to)]: value}
    if not given:
        raise CommandFailed("choose where to: earliest, latest, current, or a time, a shift or an offset with a number")
    return Target(**given)
