"""``kafka-zk extract --topic-pattern``: a table for each topic, in one Spark session."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kafka_zk.base.clock import monotonic_s
from kafka_zk.cli.main import DEBUG_VARIABLE
from kafka_zk.cli.spark.exit_codes import FAILURES
from kafka_zk.cli.spark.openlineage import lineage
from kafka_zk.cli.terminal.errors import sentence
from kafka_zk.cli.terminal.output import note, print_json, print_table
from kafka_zk.cli.terminal.waiting import waiting
from kafka_zk.spark_jobs.extraction.database import results
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate, is_file_per_table
from kafka_zk.spark_jobs.extraction.database.run import ANY_COLUMNS, Database, extract_database
from kafka_zk.spark_jobs.extraction.database.topic_tables import check_pattern
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.extraction.database.results import TopicResult

_COLUMNS = ("topic", "table", "records", "seconds", "result")
_EXAMPLE = "prefix.schema.table"


def database_of(pattern: str, fields: Mapping[str, Any]) -> Database:
    """``fields``: the attributes of each topic's ``Extraction``; ``target`` and a ``schema`` of files have
    placeholders. Raises WronglyAsked before anything is started.
    """
    from kafka_zk.spark_jobs.extraction import options

    check_pattern(pattern)
    schema = fields["schema"]
    target = NameTemplate(fields["target"], "--to")
    files = NameTemplate(schema, "--schema") if schema is not None and is_file_per_table(schema) else None
    example = target.filled_target(_EXAMPLE, fields["format"])
    one = Extraction(
        **{**fields, "topics": (_EXAMPLE,), "target": example, "schema": schema if files is None else None}
    )
    has_own_columns = one.cdc is not None and one.schema is None
    if has_own_columns or files is None:
        options.check(replace(one, schema=ANY_COLUMNS) if has_own_columns else one)
    return Database(pattern=pattern, one=one, target=target, schema_files=files)


def run_database(
    asked: Database, master: str | None, config: Mapping[str, str], *, dry_run: bool, as_json: bool,
    openlineage: str | None,
) -> None:  # fmt: skip
    """Raises CommandFailed after all topics have been tried, with their common exit code."""
    from kafka_zk.spark_jobs.extraction import job

    started_s = monotonic_s()

    def single(spark: Any, extraction: Extraction) -> Report:
        (topic,) = extraction.topics
        told = partial(_note_of, topic)
        if dry_run:
            return job.plan(extraction, spark=spark, note=told)
        with lineage(openlineage, extraction) as tell:
            report = job.extract(spark, extraction, note=told)
            tell(report)
        return report

    with ExitStack() as cleanup:

        def start_spark() -> Any:
            from kafka_zk.cli.spark.command_session import command_session

            with waiting("Spark to start", None):
                return cleanup.enter_context(command_session("kafka-zk extract", master, config))

        found = extract_database(asked, single, start_spark, explain=_explained, note=note, is_plan=dry_run)
    _show(found, monotonic_s() - started_s, as_json, dry_run)
    if code := results.exit_code(found):
        raise FAILURES[code](results.summary(found))


def _note_of(topic: str, text: str) -> None:
    note(f"{topic}: {text}")


def _explained(error: Exception) -> str:
    """Explain an error as ``command_session`` explains the errors of a single run."""
    from kafka_zk.spark_jobs.extraction.spark_failure import advice, reason

    if os.environ.get(DEBUG_VARIABLE):
        raise error
    if isinstance(error, click.ClickException):
        return error.format_message()
    return sentence(error) or f"the Spark job failed: {reason(error)}; {advice(error)}"


def _show(found: "list[TopicResult]", seconds: float, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json(
            {
                "topics": [each.as_document() for each in found],
                "records": sum(each.records for each in found),
                "seconds": round(seconds, 3),
                "dry_run": dry_run,
            }
        )
        return
    print_table(_COLUMNS, [each.as_row() for each in found])
    if dry_run:
        note("the column records shows how many offsets would be extracted; nothing was done")
    note(f"took {seconds:.1f} s; {results.summary(found)}")
