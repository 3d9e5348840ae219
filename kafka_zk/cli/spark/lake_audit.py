"""``kafka-zk lake audit``: finds gaps and duplicates in a topic's table, whatever program wrote the table."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from kafka_zk.cli.spark.lake_key_audit import key_options, report_of, show
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
@click.option("--topic-column", metavar="NAME", help="The column with the topic. A field of a struct: STRUCT.FIELD.")
@click.option("--partition-column", metavar="NAME", help="The column with the partition.")
@click.option(
    "--offset-column", metavar="NAME", help="The column with the offset. Default of all three: recognized by name."
)
@click.option(
    "--from-earliest", is_flag=True,
    help="The table should begin where the topic does: find records before its first row, and partitions without rows.",
)  # fmt: skip
@click.option("--scan", "read_all", is_flag=True, help="Read the offsets of every file, and trust no statistics.")
@zookeeper_option("Compare with the topic; the brokers are found here.", envvar=ZOOKEEPER_VARIABLE)
@bootstrap_servers_option("Compare with the topic.", envvar=BOOTSTRAP_VARIABLE, show_envvar=True)
@key_options
@json_option
def audit(
    table: str, topic: str, topic_column: str | None, partition_column: str | None, offset_column: str | None,
    from_earliest: bool, read_all: bool, zookeeper: str | None, bootstrap: str | None, key: str | None, as_json: bool,
    **with_key: Any,
) -> None:  # fmt: skip
    """Find gaps, duplicates, files listed twice and missing files in a table with columns for topic, partition and
    offset, whatever wrote it. It must be append-only: a row that was deleted looks like a gap.

    With --key, compare the last change event of each key with its row, in a table that is merged by this key, whatever
    wrote it. TABLE may then be a name in a Spark catalog, too. Events that may not have been read yet are listed as
    such; --group distinguishes them from lost ones. --key needs Spark.

    TABLE is the folder or address of an Iceberg or Delta table or of Parquet files, or an Iceberg metadata file
    (…metadata.json). Its metadata and statistics are read first. Rows are read only from files whose statistics do
    not say which offsets they hold, or whose offsets overlap. Nothing is changed. Without --key, Spark is not needed.

    A topic itself may have gaps: aborted transactions, transaction markers, compaction. With --bootstrap-server or
    --zookeeper only offsets that are committed records of the topic count as missing. The output names the commits that
    caused a problem, and shows statements that repair it.

    Exit code: 0 nothing found, 1 something is wrong or the command failed, 2 nothing is wrong, but something was not
    checked, or (with --key) the consumer may not have read some events yet.

    \b
    kafka-zk lake audit ./lake
    kafka-zk lake audit s3://bucket/db/orders --bootstrap-server b1:9092
        --command-config client.properties
    kafka-zk lake audit ./orders --partition-column meta.p
        --offset-column meta.o --topic orders --json
    kafka-zk lake audit ./orders --key id --topic shop.public.orders
        --bootstrap-server b1:9092 --schema 'id INT, state STRING'
    """
    if absent := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise CommandFailed(f"lake audit needs {', '.join(absent)}: pip install 'kafka-zk[spark]'")
    from kafka_zk.spark_jobs.audit.examination import AuditRequest, examine, exit_code
    from kafka_zk.spark_jobs.audit.table import ColumnChoice

    zookeeper, servers = _cluster(zookeeper, bootstrap)
    if key is not None:
        if topic_column or partition_column or offset_column or from_earliest or read_all:
            raise click.UsageError("--key cannot be combined with options for columns, --from-earliest or --scan")
        if not topic or servers is None:
            raise click.UsageError("--key needs --topic, and --bootstrap-server or --zookeeper")
        with _topic_log(servers) as log:
            found = report_of(table, topic, key, log, zookeeper, **with_key)
        if as_json:
            print_json(found.as_document())
        else:
            show(found, SHOWN)
        click.get_current_context().exit(found.exit_code)
    if wrong := [name for name, value in with_key.items() if value]:
        raise click.UsageError(f"--{wrong[0].replace('_', '-')} needs --key")
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


def _cluster(zookeeper: str | None, bootstrap: str | None) -> tuple[str | None, str | None]:
    """The ZooKeeper (if the brokers' addresses come from it) and these addresses; None if no cluster is given. An
    option overrides an environment variable.
    """
    given = click.get_current_context().get_parameter_source
    both = [given(name) is ParameterSource.COMMANDLINE for name in ("zookeeper", "bootstrap")]
    if all(both):
        raise click.UsageError("give --bootstrap-server or --zookeeper, not both")
    if zookeeper is None or (bootstrap is not None and not both[0]):
        return None, bootstrap
    from kafka_zk.cli.terminal.zookeeper_client import zookeeper_client
    from kafka_zk.spark_jobs.source.driver import registered_brokers

    with zookeeper_client(zookeeper) as client:
        return zookeeper, registered_brokers(client, zookeeper, command_security().protocol)


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
            f"{report.files_by_bounds:,} files were checked only by row count and lowest and highest offset, so a "
            "duplicate offset may hide a missing one: give --scan to read all rows"
        )
    if any(each.missing for each in report.partitions) and not is_compared:
        say("The topic may have such gaps itself (aborts, compaction): give --bootstrap-server to compare with it.")
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
