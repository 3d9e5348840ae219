"""``--openlineage`` of ``kafka-zk extract``: the run as OpenLineage's events."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kafka_zk.base.clock import wall_ms
from kafka_zk.base.randomness import SYSTEM_RANDOM, random_uuid
from kafka_zk.cli.terminal.output import note
from kafka_zk.spark_jobs.errors import SourceError

if TYPE_CHECKING:
    from kafka_zk.spark_jobs.extraction.planning import Extraction, Report

NAMESPACE, API_KEY = "OPENLINEAGE_NAMESPACE", "OPENLINEAGE_API_KEY"
_DEFAULT_NAMESPACE = "kafka-zk"

openlineage_option = click.option(
    "--openlineage",
    metavar="URL|FILE",
    envvar="OPENLINEAGE_URL",
    show_envvar=True,
    help="Send the run's OpenLineage events to a lineage server, or append them to a file.",
)


@contextmanager
def lineage(target: str | None, extraction: "Extraction") -> "Iterator[Callable[[Report], None]]":
    """Emit START now; after the block, COMPLETE with the report that the block handed over, or FAIL with its error."""
    if target is None:
        yield lambda _: None
        return
    from kafka_zk.spark_jobs.extraction.lineage.emitter import Emitter
    from kafka_zk.spark_jobs.extraction.lineage.events import LineageRun

    emitter = Emitter(target, os.environ.get(API_KEY), note)
    namespace = os.environ.get(NAMESPACE) or _DEFAULT_NAMESPACE
    run = LineageRun(str(random_uuid(SYSTEM_RANDOM)), namespace, extraction)
    reports: list[Report] = []
    emitter.emit(run.started(wall_ms()))
    try:
        yield reports.append
    except BaseException as error:
        # Errors of other libraries may contain values of records.
        told = str(error) if isinstance(error, SourceError) else type(error).__name__
        emitter.emit(run.failed(wall_ms(), told))
        raise
    emitter.emit(run.completed(wall_ms(), reports[0]))
