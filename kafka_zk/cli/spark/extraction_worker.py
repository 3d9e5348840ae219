"""Runs extractions in one Spark session for another program (the demo).

    python -m kafka_zk.cli.spark.extraction_worker '{"spark.ui.enabled": "false"}'

The argument is Spark's configuration. Each line of stdin is an extraction: the fields of ``Extraction`` as JSON. Each
line of stdout is an event: "started" with its seconds, "progress" with the records done and their total, "extracted"
with the report. The process exits at the end of stdin, or after a failure with one sentence on stderr.
"""

import json
import sys
from collections.abc import Mapping

import click

from kafka_zk.base.clock import monotonic_s
from kafka_zk.cli.spark.command_session import command_session
from kafka_zk.cli.terminal.errors import sentence
from kafka_zk.cli.terminal.output import note, print_json
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction


def work(config: Mapping[str, str]) -> None:
    started_s = monotonic_s()
    with command_session("kafka-zk extractions", None, config) as spark:
        print_json({"event": "started", "seconds": round(monotonic_s() - started_s, 3)})
        for line in sys.stdin:
            report = extract(spark, Extraction(**json.loads(line)), progress=_tell)
            print_json({"event": "extracted", **report.as_document()})


def _tell(done: int, total: int) -> None:
    print_json({"event": "progress", "done": done, "total": total})


def main(config: str) -> int:
    """Returns the exit code."""
    try:
        work(json.loads(config))
    except click.ClickException as error:
        note(f"Error: {error.format_message()}")
        return error.exit_code
    except Exception as error:
        told = sentence(error)
        if told is None:
            raise
        note(f"Error: {told}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
