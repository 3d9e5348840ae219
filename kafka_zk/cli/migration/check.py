"""``kafka-zk migration check``: looks for everything that is known to break a migration to KRaft."""

from dataclasses import replace
from pathlib import Path

import click

from kafka_zk.cli.migration.gathering import Sources, gather, read_metadata_log, sources
from kafka_zk.cli.migration.zookeeper_clients import read_strangers
from kafka_zk.cli.terminal.options import json_option
from kafka_zk.cli.terminal.output import note, print_json, print_table, say
from kafka_zk.migration.facts import LOG_NOT_READ, ClusterFacts, Fact, MigrationState, Unknown
from kafka_zk.migration.finding import Finding, Verdict, exit_code

_NO_CONTROLLERS = (
    "The cluster has no KRaft controllers yet, so the rules about them do not apply. Check again with "
    "--controller-properties and --log-dirs before you start the first one."
)


@click.command("check", short_help="Look for what would break the migration.")
@sources
@click.option(
    "--log-dirs", type=click.Path(path_type=Path, file_okay=False, exists=True), multiple=True,
    help="A folder of a broker or controller, for its meta.properties and metadata log; repeatable.",
)  # fmt: skip
@json_option
def check(
    zookeeper: str | None, bootstrap: str | None, broker_files: tuple[Path, ...], controller_files: tuple[Path, ...],
    log_dirs: tuple[Path, ...], as_json: bool,
) -> None:  # fmt: skip
    """Look for everything that is known to break a migration to KRaft, before it begins or at any time during it.

    Each rule is clean, a trap, or not checked. For a rule that was not checked, the output says what is missing: an
    option, a permission, or a running controller. A rule about controllers does not apply while there are none. The
    output begins with the traps. Run it before the controllers start, again when they wait, and before each further
    step.

    Exit code: 0 all rules that apply are clean, 1 there is a trap or the command failed, 2 no trap, but something was
    not checked.

    \b
    kafka-zk migration check --zookeeper zk:2181/kafka
        --bootstrap-server b1:9092 --command-config admin.properties
    kafka-zk migration check --zookeeper zk:2181/kafka
        --bootstrap-server b1:9092 --controller-properties controller.properties
        --server-properties server.properties --log-dirs /var/lib/kafka
    """
    from kafka_zk.migration.rules import examine_all

    given = Sources(zookeeper, bootstrap, broker_files, controller_files, log_dirs)
    with given.opened() as client:
        facts = gather(given, client)
        if client is not None and given.zookeeper is not None:
            facts = replace(facts, strangers=read_strangers(given.zookeeper, client, facts))
    facts = replace(facts, recorded_state=_recorded_state(given, facts))
    findings = examine_all(facts)
    if facts.controllers == ():
        note(_NO_CONTROLLERS)
    if as_json:
        print_json([each.as_document() for each in findings])
    else:
        _show(findings)
    click.get_current_context().exit(exit_code(findings))


def _recorded_state(given: Sources, facts: ClusterFacts) -> Fact[MigrationState]:
    """The migration state in the metadata log of the running controllers."""
    from kafka_zk.migration.nodes import answering

    if isinstance(facts.controllers, Unknown) or not answering(facts.controllers):
        return LOG_NOT_READ
    log = read_metadata_log(given, None, facts.brokers)
    return log if isinstance(log, Unknown) else log.state


def _show(findings: tuple[Finding, ...]) -> None:
    """Show traps first, because some must be fixed before anything else is done."""

    for each in findings:
        if each.verdict is Verdict.TRAP:
            _show_trap(each)
    _show_missing(findings)
    print_table(("rule", "result", "source"), [
        {"rule": each.rule.name, "result": each.verdict.value, "source": each.rule.source} for each in findings
    ])  # fmt: skip
    say("")
    counts = [f"{sum(each.verdict is verdict for each in findings)} {verdict.value}" for verdict in Verdict]
    say(", ".join(counts))


def _show_trap(finding: Finding) -> None:
    say(f"TRAP {finding.rule.name} ({finding.rule.source})")
    for sentence in finding.seen:
        say(f"  {sentence}")
    say(f"  Why: {finding.rule.why}")
    say(f"  Fix: {finding.rule.fix}")
    if finding.rule.until:
        say(f"  No trap since: {finding.rule.until}")
    say("")


def _show_missing(findings: tuple[Finding, ...]) -> None:
    missing: dict[tuple[str, str], list[str]] = {}
    for each in findings:
        for unknown in each.missing:
            missing.setdefault((unknown.reason, unknown.remedy), []).append(each.rule.name)
    if not missing:
        return
    say("Not checked:")
    for (reason, remedy), names in missing.items():
        say(f"  {reason}. Needed: {remedy}. Rules: {', '.join(names)}")
    say("")
