"""Tests of the page's commands: their effects, the acts that are recorded, and the reasons for refusals."""

from typing import Any

import pytest

from kafka_zk.recorder.timeline.cluster_events import OPERATOR, OperatorActed
from kafka_zk.recorder.web.operations import Commands, Done, PerhapsDone, Refused


def reset(request: dict[str, Any]) -> Done:
    return Done({"count": 2}, "reset-offsets", "group board", "User:anna", "its members start at the new offsets of t")


def plan(request: dict[str, Any]) -> Done:
    return Done({"plan": "p", "principal": "User:anna"})


def test_a_successful_act_is_recorded_with_its_principal_and_a_plan_is_not() -> None:
    recorded: list[OperatorActed] = []
    commands = Commands(None, {"plan-reset": plan, "reset-offsets": reset}, recorded.append)
    assert commands.run({"action": "plan-reset"}) == {"plan": "p", "principal": "User:anna"}
    assert recorded == []
    assert commands.run({"action": "reset-offsets"}) == {"count": 2}
    [event] = recorded
    assert (event.actor, event.action, event.target) == (OPERATOR, "reset-offsets", "group board")
    assert event.cause == "requested on the page, as User:anna"
    assert event.expected == "its members start at the new offsets of t (as User:anna)"


def test_a_refused_act_is_not_recorded() -> None:
    def refuse(request: dict[str, Any]) -> Done:
        raise Refused("NON_EMPTY_GROUP: the group has members")

    recorded: list[OperatorActed] = []
    with pytest.raises(Refused, match="NON_EMPTY_GROUP"):
        Commands(None, {"reset-offsets": refuse}, recorded.append).run({"action": "reset-offsets"})
    assert recorded == []


def test_a_failed_act_that_may_have_changed_something_is_recorded() -> None:
    def lose(request: dict[str, Any]) -> Done:
        raise PerhapsDone("no broker answered", reset(request))

    recorded: list[OperatorActed] = []
    with pytest.raises(PerhapsDone, match="no broker answered"):
        Commands(None, {"reset-offsets": lose}, recorded.append).run({"action": "reset-offsets"})
    assert [each.target for each in recorded] == ["group board"]


def test_other_commands_break_brokers_if_that_is_allowed() -> None:
    with pytest.raises(Refused, match="only a kafka-zk up cluster can be broken"):
        Commands(None, {"reset-offsets": reset}, lambda event: None).run({"action": "kill", "broker": 1})
    breaks = Commands(lambda request: {"state": "ended"}, {"reset-offsets": reset}, lambda event: None)
    assert breaks.run({"action": "kill", "broker": 1}) == {"state": "ended"}
