"""A Spark session whose output goes to a file, and whose failures are one sentence that names the file.

``spark-submit`` starts Spark before this code and keeps Spark's own logging.
"""

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_zk.cli.main import DEBUG_VARIABLE
from kafka_zk.cli.terminal.errors import CommandFailed, sentence


@contextmanager
def command_session(app_name: str, master: str | None, config: Mapping[str, str]) -> Iterator[Any]:
    """Raises CommandFailed for any Spark error; this project's errors pass unchanged."""
    from kafka_zk.spark_jobs.extraction.progress import HEARTBEAT
    from kafka_zk.spark_jobs.extraction.spark_failure import advice, reason
    from kafka_zk.spark_jobs.session import spark_session, stop, tell_no_tracebacks

    debugged = bool(os.environ.get(DEBUG_VARIABLE))
    if not debugged:
        _hush()
    log = _Log(debugged)
    kept = started = False
    try:
        with log.of_new_processes():
            spark = spark_session(app_name, master, {**HEARTBEAT, **config})
        started = True
        tell_no_tracebacks(spark)
        try:
            yield spark
        finally:
            stop(spark)
    except Exception as error:
        if sentence(error) is not None or debugged:
            raise
        kept = True
        if started:
            told = f"the Spark job failed: {reason(error)}; {advice(error)}"
        else:
            told = f"Spark did not start: {log.last_error() or reason(error)}"
        raise CommandFailed(f"{told} (Spark's log: {log.path})") from error
    finally:
        if not kept:
            log.path.unlink(missing_ok=True)


def _hush() -> None:
    """Silence PySpark, which logs errors with Java traces, and a warning about pandas, to stderr."""
    from pyspark.logger import PySparkLogger

    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


class _Log:
    """The stderr of Spark's JVM and Python workers; not used with KAFKA_ZK_DEBUG."""

    def __init__(self, debugged: bool) -> None:
        self._debugged = debugged
        handle, name = tempfile.mkstemp(prefix="kafka-zk-spark-", suffix=".log")
        os.close(handle)
        self.path = Path(name)

    @contextmanager
    def of_new_processes(self) -> Iterator[None]:
        """Processes started in the block inherit the file as stderr."""
        if self._debugged:
            yield
            return
        sys.stderr.flush()
        printing = sys.stderr
        with os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace") as own:
            try:
                with self.path.open("ab") as log:
                    os.dup2(log.fileno(), 2)
                sys.stderr = own
                yield
            finally:
                sys.stderr = printing
                own.flush()
                os.dup2(own.fileno(), 2)

    def last_error(self) -> str | None:
        """The last line that reports an error, as a JVM or spark-submit prints at its end; None if there is none."""
        lines = [line.strip() for line in self.path.read_text(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if "Error" in line or "Exception" in line), None)
