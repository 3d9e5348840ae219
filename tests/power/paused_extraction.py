"""``kafka-zk extract`` that stops at each point of its protocol, prints the point's name, and continues when its input
has a line.

    python -m tests.power.paused_extraction ARGUMENTS of kafka-zk extract
"""

from __future__ import annotations

import sys
from typing import Any

from kafka_zk.cli.main import main as kafka_zk
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from kafka_zk.spark_jobs.extraction.steps import Phase, Step

PREFIX = "point "


def main(*arguments: str) -> None:
    original = job.extract

    def observe(step: Step, phase: Phase) -> None:
        print(f"{PREFIX}{step.name}-{phase.value}", flush=True)
        sys.stdin.readline()

    def extract(spark: Any, extraction: Extraction, **more: Any) -> Report:
        return original(spark, extraction, observe=observe, **more)

    job.extract = extract
    kafka_zk(["extract", *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
