"""``kafka-zk tier check``: compares a bucket with ``__remote_log_metadata``, and repairs what needs no guess."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.cli.terminal.durations import parse_duration_ms
from kafka_zk.cli.terminal.options import bootstrap_option, json_option
from kafka_zk.cli.terminal.output import note, print_json, print_table, say
from kafka_zk.recorder.timeline.names import counted

if TYPE_CHECKING:
    from kafka_zk.cli.tier.repairing import RepairPlan, StepResult, TierRepair
    from kafka_zk.storage.tiered.tier_check import Examined, Finding, Kind

FOUND, NOT_CHECKED = 1, 2
SHOWN = 20
"""Problems of each kind, and things not checked, that are described; all are counted."""


@click.command("check", short_help="Compare the bucket with the remote log metadata.")
@click.option("--storage", required=True, metavar="ADDRESS", help="A folder, or s3://BUCKET/PREFIX, gs:// or az://.")
@click.option("--topic", "wanted", multiple=True, help="May be repeated; all topics by default.")
@click.option(
    "--older-than", default="PT1H", show_default=True, metavar="DURATION",
    help="Report copies and deletions as unfinished if they began longer ago than this.",
)  # fmt: skip
@click.option("--repair", "plans_repair", is_flag=True, help="Show which of the findings it would repair, and how.")
@click.option("--execute", is_flag=True, help="With --repair: carry the plan out.")
@bootstrap_option
@json_option
def check(
    storage: str,
    wanted: tuple[str, ...],
    older_than: str,
    plans_repair: bool,
    execute: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Compare the objects of tiered storage with the cluster's remote log metadata and offsets.

    It reports topics whose tiering was turned off while remote segments remain, missing objects and those of a wrong
    size, offsets that neither the bucket nor a leader has, copies and deletions that were never finished, segments of
    deleted topics, and orphans. Nothing is changed without --repair --execute. If something is found, it looks a second
    time and reports only what both looks found, because brokers copy and delete meanwhile.

    ADDRESS is where the brokers' plugin writes: the folder of Kafka's LocalTieredStorage, or a bucket or folder of
    Aiven's plugin, with its key.prefix. Buckets need kafka-zk[tiered], and take their keys from the environment
    (AWS_ACCESS_KEY_ID and so on).

    --repair shows a plan: orphans of the cluster's topics, copies whose broker is gone, and deletions that never ended
    are deleted if all is older than two hours and no consumer misses a record of the partition. --execute carries it
    out, and checks each step again right before it.

    Exit code: 0 clean, 1 something is wrong or the command failed, 2 nothing is wrong, but something was not checked.
    With --execute, what was repaired is not wrong any more.

    \b
    kafka-zk tier check --storage s3://bucket/prefix/ --bootstrap-server b1:9092
        --command-config admin.properties
    kafka-zk tier check --storage /var/lib/tier --topic orders --json
    """
    if execute and not plans_repair:
        raise click.UsageError("--execute goes with --repair")
    from kafka_zk.cli.tier import repair_report
    from kafka_zk.cli.tier.gathering import TierReader
    from kafka_zk.cli.tier.repairing import TierRepair, plan_repair
    from kafka_zk.storage.tiered.storage_address import open_storage
    from kafka_zk.storage.tiered.tier_check import examine

    older_than_ms = parse_duration_ms(older_than)
    opened = open_storage(storage)
    plan: RepairPlan | None = None
    results: list[StepResult] | None = None
    with TierReader(bootstrap, opened, wanted) as reader:
        facts = reader.look(older_than_ms)
        examined = examine(facts)
        if examined.findings:
            facts = reader.look(older_than_ms)
            examined = examine(facts, examined)
        if not as_json:
            _show(examined, opened.layout.name)
        if plans_repair:
            plan = plan_repair(reader, facts, examined)
            if not as_json:
                repair_report.show_plan(plan)
        if plan is not None and execute:
            repair = TierRepair(bootstrap, reader, opened.store, older_than_ms)
            results = _carried_out(repair, plan, as_json) if plan.steps else []
    if as_json:
        more = {} if plan is None else {"repair": repair_report.plan_document(plan, results)}
        print_json(_document(examined) | more)
    elif plan is not None and plan.steps and not execute:
        note("Nothing was changed; --execute carries out the plan.")
    click.get_current_context().exit(_exit_code(examined, plan, results))


def _carried_out(repair: "TierRepair", plan: "RepairPlan", as_json: bool) -> "list[StepResult]":
    from kafka_zk.cli.tier.repair_report import show_result

    results = []
    with repair:
        for result in repair.carry_out(plan.steps):
            results.append(result)
            if not as_json:
                show_result(result)
    return results


def _exit_code(examined: "Examined", plan: "RepairPlan | None", results: "Sequence[StepResult] | None") -> int:
    is_wrong = bool(examined.findings)
    if plan is not None and results is not None:
        is_wrong = bool(plan.kept) or any(each.problem is not None for each in results)
    return FOUND if is_wrong else NOT_CHECKED if examined.not_checked else 0


def _document(examined: "Examined") -> dict[str, Any]:
    return {
        "findings": [each.as_document() for each in examined.findings],
        "notChecked": examined.not_checked,
        "segments": examined.segment_count,
        "segmentBytes": examined.segment_bytes,
        "unreachableSegments": examined.unreachable_count,
        "unreachableBytes": examined.unreachable_bytes,
    }


def _show(examined: "Examined", layout: str) -> None:
    if examined.findings:
        print_table(("problem", "topic", "partition", "count", "bytes"), _counted(examined.findings))
        say("")
    shown: Counter[Kind] = Counter()
    for each in examined.findings:
        shown[each.kind] += 1
        if shown[each.kind] > SHOWN:
            continue
        where = each.topic if each.partition is None else f"{each.topic}-{each.partition}"
        say(f"{each.kind.value} {where}: {each.said}" if where else f"{each.kind.value}: {each.said}")
    for kind, count in shown.items():
        if count > SHOWN:
            say(f"{kind.value}: {count - SHOWN} more, which --json lists")
    for reason in examined.not_checked[:SHOWN]:
        say(f"not checked: {reason}")
    say(f"{counted(examined.segment_count, 'segment')} of {examined.segment_bytes} bytes can be read ({layout})")
    if examined.unreachable_count:
        say(
            f"{examined.unreachable_count} of them, {examined.unreachable_bytes} bytes, are not used: others replace "
            "them, or their leader epoch was lost"
        )
    say(f"{counted(len(examined.findings), 'problem')}, {len(examined.not_checked)} not checked")


def _counted(findings: "Sequence[Finding]") -> list[dict[str, Any]]:
    """One row for each problem of a partition."""
    groups: dict[tuple[Kind, str, int | None], list[Finding]] = {}
    for each in findings:
        groups.setdefault((each.kind, each.topic, each.partition), []).append(each)
    return [
        {"problem": kind.value, "topic": topic or None, "partition": partition, "count": len(group),
         "bytes": sum(each.size_bytes for each in group)}
        for (kind, topic, partition), group in groups.items()
    ]  # fmt: skip
