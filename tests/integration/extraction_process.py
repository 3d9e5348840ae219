"""One extraction as a process, killed at a point of the protocol: ``python -m tests.integration.extraction_process``.

Arguments: a JSON object of ``Extraction``'s fields; then, if it is to be killed, step, phase and victim. The victim
``driver`` is this process; ``executor`` is Spark's JVM, which with a local master runs the tasks and their workers.
"""

import json
import os
import signal
import sys
from pathlib import Path

from spark_jobs.extraction.job import extract
from spark_jobs.extraction.planning import Extraction
from spark_jobs.extraction.steps import Phase, Step
from spark_jobs.session import spark_session
from tests.integration.spark import SMALL

DRIVER, EXECUTOR = "driver", "executor"


def children(pid: int) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]


def kill(victim: str) -> None:
    if victim == DRIVER:
        os.kill(os.getpid(), signal.SIGKILL)
    for child in children(os.getpid()):
        if b"SparkSubmit" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(child, signal.SIGKILL)


def main(given: str, step: str = "", phase: str = "", victim: str = "") -> None:
    fields = json.loads(given)
    fields["topics"] = tuple(fields["topics"])
    spark = spark_session("extraction", "local[1]", SMALL)
    spark.sparkContext.setLogLevel("ERROR")

    def observe(at: Step, in_phase: Phase) -> None:
        if (at.name, in_phase.value) == (step, phase):
            kill(victim)

    report = extract(spark, Extraction(**fields), observe=observe)
    print(json.dumps({"records": report.records, "recovered": report.recovered}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
