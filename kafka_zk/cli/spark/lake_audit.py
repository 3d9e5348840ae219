"""``kafka-zk lake audit``: gaps and duplicates in a table of a topic, whatever wrote it."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from kafka_zk.cli.terminal.command_config import command_security
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import (
    BOOTSTRAP_VARIABLE,
    ZOOKEEPER_VARIABLE,
    bootstrap_servers_option,
    json_option,
    zookeeper_option,
)
from kafka_zk.cli.terminal.output import note, print_json, print_table, say
from kafka_zk.cli.terminal.waiting import waiting

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.audit.findings import Finding, Kind, Report
    from kafka_zk.spark_jobs.audit.topic_log import TopicLog

PACKAGES = ("pyarrow", "numpy", "numba", "fastavro")
SHOWN = 20
"""Findings of each kind, and things not checked, that are described for people."""
PATIENCE_MS = 30_000
FILES_AT_ONCE = 4


@click.command("audit", short_help="Find gaps and duplicates in an Iceberg, Delta or Parquet table.")
@click.argument("table")
@click.option("--topic", default="", help="Audit this topic only; needed if the table has no column for the topic.")
@click.option("--topic-column", metavar="NAME", help="A field of a struct is STRUCT.FIELD; so with the next two.")
@click.option("--partition-column", metavar="NAME", help="Default: recognized by its name, as are the others.")
@click.option("--offset-column", metavar="NAME")
@click.option(
    "--from-earliest", is_flag=True,
    help="The table should begin where the topic does: find records before its first rows, and partitions without any.",
)  # fmt: skip
@click.option("--scan", "read_all", is_flag=True, help="Read the offsets of every file; trust no statistics.")
@zookeeper_option("Compare with the topic; the brokers are found here.", envvar=ZOOKEEPER_VARIABLE)
@bootstrap_servers_option("Compare with the topic.", envvar=BOOTSTRAP_VARIABLE, show_envvar=True)
@json_option
def audit(
    table: str, topic: str, topic_column: str | None, partition_column: str | None, offset_column: str | None,
    from_earliest: bool, read_all: bool, zookeeper: str | None, bootstrap: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Find gaps, duplicates, files listed twice and missing files in a table with columns for topic, partition and
    offset, whatever wrote it. It must be append-only: a row that was deleted looks like a gap.

    TABLE is the folder or address of an Iceberg or Delta table or of Parquet files, or an Iceberg metadata file
    (…metadata.json). Its metadata and statistics are read first; the rows only of files whose statistics do not say
    which offsets they hold, or whose offsets overlap. Nothing is changed, and Spark is not needed.

    A topic has gaps of its own: aborted transactions, their markers, compaction. With --bootstrap-server or --zookeeper
    only offsets that are committed records of the topic count as missing. The output names the commits that brought a
    problem, and statements that repair it.

    Exit code: 0 nothing found, 1 something is wrong or the command failed, 2 nothing found, but something was not
    checked.

    \b
    kafka-zk lake audit ./lake
    kafka-zk lake audit s3://bucket/db/orders --bootstrap-server b1:9092
        --command-config client.properties
    kafka-zk lake audit ./orders --partition-column meta.p
        --offset-column meta.o --topic orders --json
    """
    if absent := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise CommandFailed(f"lake audit needs {', '.join(absent)}: pip install 'kafka-zk[spark]'")
    from kafka_zk.spark_jobs.audit.examination import AuditRequest, examine, exit_code
    from kafka_zk.spark_jobs.audit.table import ColumnChoice

    servers = _servers(zookeeper, bootstrap)
    if from_earliest and servers is None:
        raise click.UsageError("--from-earliest needs --bootstrap-server or --zookeeper")
    choice = ColumnChoice(topic_column, partition_column, offset_column)
    with (
        waiting(f"{table} to be read", None),
        nullcontext() if servers is None else _topic_log(servers) as log,
        ThreadPoolExecutor(FILES_AT_ONCE) as pool,
    ):
        report = examine(AuditRequest(table, choice, topic, from_earliest, read_all), log, pool.map)
    if as_json:
        print_json(report.as_document())
    else:
        _show(report, servers is not None)
    click.get_current_context().exit(exit_code(report))


def _topic_log(servers: str) -> "TopicLog":
    from kafka_zk.spark_jobs.audit.topic_log import TopicLog
    from kafka_zk.spark_jobs.source.cluster_client import ClientSettings

    return TopicLog(ClientSettings(servers, patience_ms=PATIENCE_MS, security=command_security()), note)


def _servers(zookeeper: str | None, bootstrap: str | None) -> str | None:
    """The brokers' addresses; None without a cluster. An option counts before a variable of the environment."""
    given = click.get_current_context().get_parameter_source
    both = [given(name) is ParameterSource.COMMANDLINE for name in ("zookeeper", "bootstrap")]
    if all(both):
        raise click.UsageError("give --bootstrap-server or --zookeeper, not both")
    if zookeeper is None or (bootstrap is not None and not both[0]):
        return bootstrap
    from kafka_zk.cli.terminal.zookeeper_client import zookeeper_client
    from kafka_zk.spark_jobs.source.driver import registered_brokers

    with zookeeper_client(zookeeper) as client:
        return registered_brokers(client, zookeeper, command_security().protocol)


def _show(report: "Report", is_compared: bool) -> None:
    columns = ["topic", "partition", "first", "last", "rows", "duplicates", "missing"]
    if is_compared:
        columns += ["earliest", "latest"]
    print_table(columns, [each._asdict() for each in report.partitions])
    by_kind: dict[Kind, list[Finding]] = {}
    for each in report.findings:
        by_kind.setdefault(each.kind, []).append(each)
    for kind, findings in by_kind.items():
        for each in findings[:SHOWN]:
            _describe(each)
        more = len(findings[SHOWN:]) + report.left_out.get(kind, 0)
        if more:
            say("")
            say(f"{kind.value}: {more:,} more")
    say("")
    for reason in report.not_checked[:SHOWN]:
        say(f"not checked: {reason}")
    if report.files_by_bounds:
        say(
            f"{report.files_by_bounds:,} files were judged by count and bounds: one that has an offset twice and lacks "
            "another looks right (--scan reads all)"
        )
    if any(each.missing for each in report.partitions) and not is_compared:
        say("The topic may have such gaps itself (aborts, compaction): --bootstrap-server compares them.")
    say(
        f"{report.rows:,} rows in {report.files:,} files ({report.format}; {report.files_read:,} files were read): "
        f"{len(report.findings) + sum(report.left_out.values()):,} problems, {len(report.not_checked):,} not checked"
    )


def _describe(finding: "Finding") -> None:
    say("")
    say(f"{finding.kind.value}: {finding.said}")
    for commit in finding.commits:
        say(f"  Commit: {commit}")
    for statement in finding.repair:
        say(f"  Repair: {statement}")
