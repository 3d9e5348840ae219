"""``kafka-zk extract``, and the same for ``spark-submit``: what is new of topics into a folder, exactly once.

Exit codes: 0 extracted, or nothing was new; 1 failed; 2 used wrongly; 3 the group has another live member; 4 somebody
else moved the group's offsets meanwhile, nothing was published. After any of them the next run goes on correctly.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.cli.consume import parse_time_ms
from kafka_zk.cli.errors import CommandFailed, sentence
from kafka_zk.cli.options import json_option
from kafka_zk.cli.output import note, print_json, print_table
from kafka_zk.cli.properties import KEY_VALUE
from spark_jobs.extraction.decoding import DECODINGS, FORMATS, read_schema
from spark_jobs.extraction.errors import ForeignCommit, GroupBusy

if TYPE_CHECKING:
    from rich.progress import TaskID

    from spark_jobs.extraction.planning import Extraction, Report
    from spark_jobs.extraction.progress import Progress
    from storage.types import TopicPartition

_COLUMNS = ("topic", "partition", "from_offset", "until_offset", "lag_before", "lag_after")


class _GroupIsBusy(CommandFailed):
    exit_code = 3


class _Overtaken(CommandFailed):
    exit_code = 4


@click.command("extract", short_help="What is new of a topic into a folder by Spark, exactly once.")
@click.option("--zookeeper", metavar="HOST:PORT[,...][/CHROOT]", required=True, envvar="KAFKA_ZK_ZOOKEEPER")
@click.option("--group", required=True, help="Whose offsets in ZooKeeper say what is new.")
@click.option("--topic", "topics", required=True, multiple=True, help="May be repeated.")
@click.option("--to", "target", required=True, metavar="DIR", help="A local folder or any URI that Spark can write to.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="parquet", show_default=True)
@click.option("--decode", type=click.Choice(DECODINGS), help="Keys and values are bytes otherwise.")
@click.option("--schema", help="Of the values: DDL as 'a INT, b STRING' (json), or an Avro record; @FILE reads it.")
@click.option("--partition-by", "partition_by", multiple=True, metavar="COLUMN", help="May be repeated.")
@click.option("--max-records", type=click.IntRange(1), help="At most so many in this run.")
@click.option("--max-records-per-task", type=click.IntRange(1), help="Cut large partitions into several tasks.")
@click.option(
    "--until", default="now", show_default=True, help="Stop at records of this time: ms, or 2026-11-21T06:00Z."
)
@click.option("--wait", "wait_s", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="For others to leave.")
@click.option("--fail-on-data-loss/--no-fail-on-data-loss", default=True, show_default=True)
@click.option("--master", help="Spark's master.  [default: local[*], or what spark-submit says]")
@click.option("--conf", "conf", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Of Spark; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")
@json_option
def command(
    zookeeper: str,
    group: str,
    topics: tuple[str, ...],
    target: str,
    format_name: str,
    decode: str | None,
    schema: str | None,
    partition_by: tuple[str, ...],
    max_records: int | None,
    max_records_per_task: int | None,
    until: str,
    wait_s: float,
    fail_on_data_loss: bool,
    master: str | None,
    conf: tuple[tuple[str, str], ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Extract with Spark what is new of topics, from the group's offsets in ZooKeeper on, each record exactly once.

    Every run adds one folder range=... to DIR, named by its offsets, or none when nothing is new. Killed at any moment,
    the next run finishes or repeats the range. While a live consumer is in the group it does not run (exit code 3).

    \b
    kafka-zk extract --zookeeper 127.0.0.1:2181 --group lake --topic flights --to ./lake
    kafka-zk extract ... --decode json --schema 'carrier STRING, dep_delay INT' --partition-by carrier
    kafka-zk extract ... --until 2026-11-21T06:00Z --max-records 1000000 --dry-run
    """
    from spark_jobs.extraction import decoding, job
    from spark_jobs.extraction.planning import Extraction

    extraction = Extraction(
        zookeeper=zookeeper,
        group=group,
        topics=topics,
        target=target,
        format=format_name,
        decode=decode,
        schema=read_schema(schema) if schema else None,
        partition_by=partition_by,
        max_records=max_records,
        max_records_per_task=max_records_per_task,
        until_ms=None if until == "now" else parse_time_ms(until),
        fail_on_data_loss=fail_on_data_loss,
        wait_ms=wait_s * 1000,
    )
    try:
        decoding.check(extraction.decode, extraction.schema, extraction.format)
        report = job.plan(extraction) if dry_run else _run(extraction, master, dict(conf), as_json)
    except GroupBusy as error:
        raise _GroupIsBusy(str(error)) from error
    except ForeignCommit as error:
        raise _Overtaken(str(error)) from error
    _show(report, as_json, dry_run)


def _run(extraction: "Extraction", master: str | None, conf: Mapping[str, str], quiet: bool) -> "Report":
    from spark_jobs.extraction.job import extract
    from spark_jobs.session import stop, tell_no_tracebacks

    spark = _session(master, conf)
    tell_no_tracebacks(spark)
    try:
        with _progress(quiet) as progress:
            return extract(spark, extraction, progress=progress)
    except Exception as error:
        if sentence(error) is not None:
            raise
        raise CommandFailed(_spark_sentence(error)) from error
    finally:
        stop(spark)


def _session(master: str | None, conf: Mapping[str, str]) -> Any:
    from spark_jobs.session import spark_session

    try:
        return spark_session("kafka-zk extract", master, conf)
    except Exception as error:
        if sentence(error) is not None:
            raise
        raise CommandFailed(f"Spark did not start: {_first_line(error)}") from error


@contextmanager
def _progress(quiet: bool) -> "Iterator[Progress]":
    """A bar for each partition on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True)) as bars:
        tasks: dict[TopicPartition, TaskID] = {}

        def show(told: "Mapping[TopicPartition, tuple[int, int]]") -> None:
            for tp, (done, total) in told.items():
                if tp not in tasks:
                    tasks[tp] = bars.add_task(str(tp), total=total)
                bars.update(tasks[tp], completed=done)

        yield show


def _spark_sentence(error: Exception) -> str:
    """What went wrong in a Spark job: the Python exception of the task, without the traces around it."""
    lines = [line.strip() for line in str(error).splitlines()]
    own = [line for line in lines if line.startswith("spark_jobs.errors.")]
    told = own[-1].partition(": ")[2] if own else _first_line(error)
    return f"the Spark job failed: {told}; run it again, it goes on where it was"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _show(report: "Report", as_json: bool, dry_run: bool) -> None:
    rows = [asdict(each) for each in report.partitions]
    if as_json:
        print_json(
            {
                "records": report.records,
                "seconds": round(report.seconds, 3),
                "records_per_second": round(report.records_per_second),
                "published": list(report.published),
                "recovered": report.recovered,
                "dry_run": dry_run,
                "partitions": rows,
            }
        )
        return
    print_table(_COLUMNS, rows)
    if dry_run:
        planned = sum(each.until_offset - each.from_offset for each in report.partitions)
        note(f"{planned} offsets would be extracted; nothing was done")
        return
    for folder in report.published:
        note(f"published {folder}")
    note(f"{report.records} records in {report.seconds:.1f} s, {report.records_per_second:,.0f} a second")


if __name__ == "__main__":
    from kafka_zk.cli.main import main

    main(["extract", *sys.argv[1:]])
