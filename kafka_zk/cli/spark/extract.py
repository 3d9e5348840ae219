"""``kafka-zk extract``, also for ``spark-submit``.

After any exit code the next run continues correctly.
"""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from kafka_zk.base.clock import monotonic_s
from kafka_zk.cli.spark.exit_codes import GroupIsBusy, Overtaken, Short
from kafka_zk.cli.spark.openlineage import lineage, openlineage_option
from kafka_zk.cli.spark.sink_options import sink_options, with_packages
from kafka_zk.cli.spark.value_options import every_option, metrics_option, schema_text, value_options
from kafka_zk.cli.terminal.command_config import security_properties
from kafka_zk.cli.terminal.durations import parse_time_ms, time_text
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import bootstrap_servers_option, json_option
from kafka_zk.cli.terminal.output import note, print_json, print_table
from kafka_zk.cli.terminal.properties import KEY_VALUE
from kafka_zk.cli.terminal.waiting import waiting
from kafka_zk.embedded.spark_packages import absent_packages
from kafka_zk.spark_jobs.errors import ForeignCommit, GroupBusy, WronglyAsked
from kafka_zk.spark_jobs.extraction.database.name_templates import is_file_per_table
from kafka_zk.spark_jobs.extraction.decoding import DECODINGS, FORMATS
from kafka_zk.spark_jobs.extraction.table_formats import TABLE_FORMATS
from kafka_zk.spark_jobs.extraction.undecodable import CHOICES, FAIL, KEEP, RAW_VALUE

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.extraction.planning import Extraction, Report

_COLUMNS = ("topic", "partition", "from_offset", "until_offset", "lag_before", "lag_after")


@click.command("extract", short_help="Extract a topic's new records into a folder with Spark, exactly once.")
@click.option("--zookeeper", metavar="HOST:PORT[,...][/CHROOT]", envvar="KAFKA_ZK_ZOOKEEPER", show_envvar=True)
@bootstrap_servers_option("Instead of --zookeeper, with --format delta: the table has the group's offsets.")
@click.option("--group", required=True, help="The group whose offsets define what is new.")
@click.option("--topic", "topics", multiple=True, help="May be repeated.")
@click.option(
    "--topic-pattern", metavar="REGEX", help="Instead of --topic, a table for each topic whose whole name matches."
)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="DIR",
    help="A local folder or any URI that Spark can write to; with --topic-pattern, with {table}, {schema} or {topic}.",
)
@click.option("--format", type=click.Choice((*FORMATS, *TABLE_FORMATS)), default="parquet", show_default=True)
@click.option("--decode", type=click.Choice(DECODINGS), help="By default keys and values are bytes.")
@click.option(
    "--schema",
    callback=schema_text,
    metavar="TEXT|@FILE",
    help="DDL such as 'a INT, b STRING' for json, or an Avro record; with --value-format, the reader's schema. With "
    "--topic-pattern, it may be a file for each table: @schemas/{table}.sql",
)
@click.option(
    "--on-undecodable",
    type=click.Choice(CHOICES),
    default=FAIL,
    show_default=True,
    help=f"For values that --decode cannot decode: fail, null, or keep their bytes in column {RAW_VALUE}.",
)
@value_options
@sink_options
@click.option("--max-records", type=click.IntRange(1), help="At most this many in this run.")
@click.option("--max-records-per-task", type=click.IntRange(1), help="Split large partitions into several tasks.")
@click.option(
    "--until", default="now", show_default=True, metavar="TIME",
    help="Stop at the records of this time: ms since the epoch, or 2026-11-21T06:00Z.",
)  # fmt: skip
@click.option(
    "--from",
    "since",
    metavar="TIME",
    help="Extract a backfill from this time to --until, without moving the group's offsets.",
)
@every_option
@metrics_option
@openlineage_option
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0),
    default=0.0,
    metavar="SECONDS",
    help="Wait this long for other members to leave the group.",
)
@click.option("--fail-on-data-loss/--no-fail-on-data-loss", default=True, show_default=True)
@click.option("--master", help="Spark's master.  [default: local[*], or what spark-submit says]")
@click.option("--conf", "conf", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Spark property; repeatable.")
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
@json_option
def command(
    topic_pattern: str | None,
    until: str,
    since: str | None,
    wait_s: float,
    every_s: float | None,
    metrics_port: int | None,
    openlineage: str | None,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    dry_run: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Extract the new records of topics with Spark, starting at the group's offsets, each exactly once. The offsets are
    in ZooKeeper, or with --bootstrap-server in the Delta table.

    Every run adds one folder range=... to DIR, named by its offsets, or none if nothing is new. If a run is killed, the
    next one publishes what was committed, then extracts its own records.

    Exit codes: 0 everything requested is extracted; 1 failed; 2 wrong usage; 3 the group has another live member; 4
    another client changed the group's offsets meanwhile; 5 extracted, but short of the ends or of --until.

    \b
    kafka-zk extract --zookeeper 127.0.0.1:2181 --group lake --topic flights --to ./lake
    kafka-zk extract ... --decode json --schema 'carrier STRING, dep_delay INT' --partition-by carrier
    kafka-zk extract ... --until 2026-11-21T06:00Z --max-records 1000000 --dry-run
    kafka-zk extract ... --from 2026-11-20T00:00Z --until 2026-11-21T00:00Z --to ./backfill
    kafka-zk extract --bootstrap-server broker:9092 --group lake --topic flights --format delta --to ./flights ...

    With --topic-pattern, each topic is extracted like this into a table of its own, all in one Spark session. Topics
    that are new get their tables at the next run, a topic that fails stops no other, and Debezium's internal topics
    are left out. With --cdc the columns come from the records' schemas. With --zookeeper, a topic's group is
    GROUP.TOPIC. The exit code is 0 if all topics are done, otherwise the lowest nonzero code of a topic.

    \b
    kafka-zk extract ... --group lake --topic-pattern 'shop\\..*' --to './lake/{table}'
    kafka-zk extract ... --topic-pattern 'shop\\..*' --to 'lake.shop.{table}' --format iceberg --cdc debezium --dry-run
    """
    started_s = monotonic_s()
    config = with_packages(dict(conf), asked.pop("packages"))
    if told := absent_packages():
        raise CommandFailed(told)
    how = _How(started_s, until, every_s, metrics_port, openlineage, master, config, dry_run, as_json)
    try:
        _check_topics(topic_pattern, asked["topics"], asked["schema"])
        fields = {
            **_with_offsets(asked),
            "from_ms": None if since is None else parse_time_ms(since),
            "until_ms": None if until == "now" else parse_time_ms(until),
            "wait_ms": wait_s * 1000,
            "kafka": security_properties(),
        }
        _extract(fields, how) if topic_pattern is None else _extract_database(topic_pattern, fields, how)
    except WronglyAsked as error:
        raise click.UsageError(str(error)) from error
    except GroupBusy as error:
        raise GroupIsBusy(str(error)) from error
    except ForeignCommit as error:
        raise Overtaken(str(error)) from error


class _How(NamedTuple):
    """The options that say how the command runs, not what it extracts."""

    started_s: float
    until: str
    every_s: float | None
    metrics_port: int | None
    openlineage: str | None
    master: str | None
    config: Mapping[str, str]
    dry_run: bool
    as_json: bool


def _extract(fields: Mapping[str, Any], how: _How) -> None:
    """``fields``: the attributes of the ``Extraction``."""
    from kafka_zk.spark_jobs.extraction import options
    from kafka_zk.spark_jobs.extraction.planning import Extraction

    extraction = Extraction(**fields)
    options.check(extraction)
    _check_places(extraction, how.master, how.config)
    if how.every_s is not None:
        from kafka_zk.cli.spark.extract_rounds import run_rounds

        _check_every(how.until, how.dry_run, extraction, how.openlineage)
        run_rounds(
            extraction, how.every_s, how.master, how.config, metrics_port=how.metrics_port, as_json=how.as_json
        )  # fmt: skip
        return
    if how.metrics_port is not None:
        raise click.UsageError("--metrics-port is for --every")
    with lineage(None if how.dry_run else how.openlineage, extraction) as tell:
        report = _run(extraction, how.master, how.config, how.dry_run)
        tell(report)
    _show(replace(report, seconds=monotonic_s() - how.started_s), how.as_json, how.dry_run, extraction)
    if report.short and not how.dry_run:
        raise Short(
            f"{report.short:,} requested offsets are not extracted, because transactions are open: "
            "run the command again"
        )


def _extract_database(topic_pattern: str, fields: Mapping[str, Any], how: _How) -> None:
    """``fields``: the attributes of each topic's ``Extraction``, with placeholders in ``target`` and in a ``schema`` of
    files."""
    from kafka_zk.cli.spark.extract_database import database_of, run_database

    if how.every_s is not None or how.metrics_port is not None:
        raise click.UsageError("--every is for --topic: let a scheduler repeat a command with --topic-pattern")
    database = database_of(topic_pattern, fields)
    _check_places(database.one, how.master, how.config)
    run_database(
        database, how.master, how.config, dry_run=how.dry_run, as_json=how.as_json, openlineage=how.openlineage
    )  # fmt: skip


def _check_topics(pattern: str | None, topics: tuple[str, ...], schema: str | None) -> None:
    """Raises UsageError unless there is exactly one of --topic and --topic-pattern."""
    if pattern is not None and topics:
        raise click.UsageError("give --topic or --topic-pattern, not both")
    if pattern is None and not topics:
        raise click.UsageError("give --topic, or --topic-pattern for a table of each topic")
    if pattern is None and schema is not None and is_file_per_table(schema):
        raise click.UsageError("--schema: a file for each table is for --topic-pattern")


def _with_offsets(asked: dict[str, Any]) -> dict[str, Any]:
    """``asked`` with the place of the offsets. --bootstrap-server overrides a ZooKeeper from the environment."""
    zookeeper, bootstrap = asked.pop("zookeeper"), asked.pop("bootstrap")
    source = click.get_current_context().get_parameter_source("zookeeper")
    if bootstrap is not None and source is ParameterSource.ENVIRONMENT:
        zookeeper = None
    return {**asked, "zookeeper": zookeeper or "", "bootstrap_servers": bootstrap}


def _check_places(extraction: "Extraction", master: str | None, config: Mapping[str, str]) -> None:
    """Raises WronglyAsked for a master or a target that Spark would refuse after its slow start."""
    from kafka_zk.spark_jobs.extraction import preflight

    preflight.check_not_connect(master, config)
    if given_master := master or config.get("spark.master"):
        preflight.check_master(given_master)
    preflight.check_target(extraction.target, extraction.format, config)


def _check_every(until: str, dry_run: bool, extraction: "Extraction", openlineage: str | None) -> None:
    if extraction.bootstrap_servers is not None:
        raise click.UsageError("--every needs --zookeeper: with --bootstrap-server, let a scheduler repeat the command")
    if until != "now" or dry_run:
        raise click.UsageError(f"--every runs until SIGTERM: {'--dry-run' if dry_run else '--until'} is for one run")
    if openlineage is not None:
        note("rounds of --every send no OpenLineage events")


def _run(extraction: "Extraction", master: str | None, config: Mapping[str, str], dry_run: bool) -> "Report":
    """Spark starts only if needed, and stops with the run."""
    from kafka_zk.spark_jobs.extraction import job
    from kafka_zk.spark_jobs.extraction.progress_display import progress_display

    if extraction.from_ms is not None and extraction.until_ms is not None:
        times = f"from {time_text(extraction.from_ms)} until {time_text(extraction.until_ms)}"
        note(f"backfill {extraction.progress_group}, {times}")
    with ExitStack() as cleanup, ExitStack() as planning:

        def start_spark() -> object:
            from kafka_zk.cli.spark.command_session import command_session

            with waiting("Spark to start", None):
                spark = cleanup.enter_context(command_session("kafka-zk extract", master, config))
            planning.enter_context(waiting("Spark to plan", None))
            return spark

        if dry_run:
            return job.plan(extraction, spark=start_spark, note=note)
        progress = cleanup.enter_context(progress_display(note, begins=planning.close))
        return job.extract(start_spark, extraction, progress=progress, note=note)


def _show(report: "Report", as_json: bool, dry_run: bool, extraction: "Extraction") -> None:
    from kafka_zk.spark_jobs.extraction.steps import Leftover

    if as_json:
        print_json({**report.as_document(), "dry_run": dry_run})
        return
    print_table(_COLUMNS, [asdict(each) for each in report.partitions])
    if dry_run:
        planned = sum(each.until_offset - each.from_offset for each in report.partitions)
        note(f"{planned:,} offsets would be extracted, {_lag(report)}; nothing was done")
        return
    if report.recovered != Leftover.NOTHING.value:
        note(f"an earlier run was not completed: {report.recovered}")
    for folder in report.published:
        note(f"published {folder}")
    if report.writer:
        note(f"files were written by {report.writer}")
    if report.undecodable:
        note(f"{report.undecodable:,} of the values could not be decoded; {_whereabouts(extraction)}")
    took = f"in {report.seconds:.1f} s"
    if report.spark_start_seconds:
        took += f", {report.spark_start_seconds:.1f} s of it the start of Spark"
    what = f"{report.records:,} records" if report.records else "nothing was new,"
    note(f"{what} {took}; {_lag(report)}")


def _whereabouts(extraction: "Extraction") -> str:
    if extraction.dead_letter_topic is not None:
        return f"they are in topic {extraction.dead_letter_topic}"
    kept = extraction.on_undecodable == KEEP
    return f"their bytes are in column {RAW_VALUE}" if kept else "what does not fit is null"


def _lag(report: "Report") -> str:
    return f"lag {report.lag_before:,} before, {report.lag_after:,} after"


if __name__ == "__main__":
    from kafka_zk.cli.main import main

    main(["extract", *sys.argv[1:]])
