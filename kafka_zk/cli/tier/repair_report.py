"""The output of ``tier check --repair``: the plan, and what became of each step."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafka_zk.cli.terminal.output import print_table, say
from kafka_zk.recorder.timeline.names import counted
from kafka_zk.storage.tiered.uuid_text import id_text

if TYPE_CHECKING:
    from kafka_zk.cli.tier.repairing import RepairPlan, StepResult
    from kafka_zk.storage.tiered.tier_repair import RepairStep

COLUMNS = ("step", "topic", "partition", "segment", "objects", "bytes")
SHOWN = 20
"""Findings of the plan that are not repaired and are described; all are counted."""


def show_plan(plan: "RepairPlan") -> None:
    """Print all steps, and the findings that are kept."""
    say("")
    if plan.steps:
        print_table(COLUMNS, map(_row, plan.steps))
    for each in plan.kept[:SHOWN]:
        where = each.topic if each.partition is None else f"{each.topic}-{each.partition}"
        segment = "" if each.segment_id is None else f" segment {id_text(each.segment_id)}"
        say(f"not repaired: {' '.join(filter(None, (each.kind.value, where)))}{segment}: {each.reason}")
    if plan.kept[SHOWN:]:
        say(f"not repaired: {len(plan.kept) - SHOWN} more, which --json lists")
    total = sum(sum(step.sizes.values()) for step in plan.steps)
    say(f"plan: {counted(len(plan.steps), 'step')}, {total} bytes; {len(plan.kept)} not repaired")


def show_result(result: "StepResult") -> None:
    step = result.step
    what = f"{step.action.value} {step.tp.topic}-{step.tp.partition} segment {id_text(step.segment_id)}"
    say(f"{what}: {'done' if result.problem is None else f'FAILED: {result.problem}'}")


def plan_document(plan: "RepairPlan", results: "Sequence[StepResult] | None") -> dict[str, Any]:
    """``results``: None if the plan was not carried out."""
    steps = [each.as_document() for each in plan.steps]
    for document, result in zip(steps, results or (), strict=results is not None):
        document |= {"isDone": result.problem is None, "problem": result.problem}
    return {
        "isExecuted": results is not None,
        "steps": steps,
        "notRepaired": [each.as_document() for each in plan.kept],
    }


def _row(step: "RepairStep") -> dict[str, Any]:
    return {
        "step": step.action.value, "topic": step.tp.topic, "partition": step.tp.partition,
        "segment": id_text(step.segment_id), "objects": len(step.sizes), "bytes": sum(step.sizes.values()),
    }  # fmt: skip
