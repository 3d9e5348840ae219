"""``kafka-zk extract`` as a process that kills itself, or a process of Spark's, at one point of the protocol.

    python -m tests.integration.spark.extraction_process \\
        '{"step": "COMMIT", "phase": "end", "victim": "driver"}' ARGUMENTS

``{}`` kills no process. ARGUMENTS are those of ``kafka-zk extract``. ZooKeeper sessions are as short as in other tests.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.cli.main import main as kafka_zk
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction.parquet import job as parquet_job
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.source.datasource import KafkaZkDataSource, RangeReader
from kafka_zk.spark_jobs.source.range_partition import read_range
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.integration.processes import wait_for
from tests.integration.spark.shared_java import attach, is_shared

DRIVER, JAVA, WORKER, EXECUTOR = "driver", "java", "worker", "executor"
"""These are the driver's Python, the driver's Java, a Python that reads records, and the Java of a cluster's
executor.
"""
MIDDLE = "middle"
"""A phase in addition to the protocol's. In STAGE, a task has passed some of its records to Spark; in PUBLISH into an
object store, the first file is in its final place.
"""
_ROWS = 2


class Kill(NamedTuple):
    """The process to kill, and the point. The file ``once`` exists after the kill, so that it is not repeated."""

    step: str
    phase: str
    victim: str
    once: str

    def claim(self) -> bool:
        """True for the first caller, which then kills."""
        try:
            os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def killing_source(kill: Kill, pids: dict[str, int]) -> type[KafkaZkDataSource]:
    """A data source whose first task kills itself, or another process, after two of its records."""

    class Reader(RangeReader):
        def read(self, partition: Any) -> Iterator[Any]:
            return killing_read(kill, pids, partition)

    class Source(KafkaZkDataSource):
        def reader(self, schema: Any) -> RangeReader:
            return Reader(self._read_options(schema))

    return Source


def killing_read(kill: Kill, pids: dict[str, int], partition: Any) -> Iterator[Any]:
    """Like ``read_range``, but kills the victim after two records, once."""
    parts = _parts(read_range(partition))
    yield next(parts)
    if kill.claim():
        _kill(_seen_from_worker(kill.victim, pids))
        if kill.victim != DRIVER or JAVA in pids:  # otherwise, the driver's Java and its job continue
            threading.Event().wait()  # a surviving process must not continue; Spark ends it with its executor
    yield from parts


def kill_while_reading(session: Any, kill: Kill, pids: dict[str, int]) -> None:
    """Patch both writers: Spark's reads from the data source, and the executors' own writer reads the ranges."""
    session.dataSource.register(killing_source(kill, pids))
    parquet_job.read_range = partial(killing_read, kill, pids)  # type: ignore[attr-defined]


def _parts(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for row in range(0, batch.num_rows, _ROWS):
            yield batch.slice(row, _ROWS)


def _seen_from_worker(victim: str, pids: dict[str, int]) -> int:
    """The pid of the victim. A Python worker's parent is a daemon, whose parent is the executor's Java."""
    own = os.getpid()
    return {WORKER: own, EXECUTOR: _parent(os.getppid()), **pids}[victim]


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def kill_between_files(kill: Kill, pids: dict[str, int]) -> None:
    """Kill the victim when the publication into an object store has copied its first file."""
    original = RangeFolders._copy_file

    def copy_file(self: RangeFolders, source: str, target: str, size: int) -> None:
        original(self, source, target, size)
        if kill.claim():
            _kill(pids[kill.victim])

    RangeFolders._copy_file = copy_file  # type: ignore[method-assign]


def _processes(*words: str) -> list[int]:
    """The ids of processes whose command lines contain all these arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if set(words) <= set(arguments):
            found.append(int(path.parent.name))
    return found


def executors(application_id: str) -> list[int]:
    """The Java processes of an application's executors on a standalone cluster on this machine."""
    return _processes("--app-id", application_id)


def driver_processes() -> dict[str, int]:
    """The ids of the driver's processes, by victim. A shared Java belongs to no driver."""
    if is_shared():
        return {DRIVER: os.getpid()}
    submitted = [pid for pid in _processes("org.apache.spark.deploy.SparkSubmit") if _parent(pid) == os.getpid()]
    return {DRIVER: os.getpid(), JAVA: submitted[0]}


def main(point: str, *arguments: str) -> None:
    kill = Kill(**json.loads(point)) if point != "{}" else None
    original = job.extract

    def extract(spark: Any, extraction: Extraction, **more: Any) -> Report:
        pids: dict[str, int] = {}
        sessions: list[Any] = []

        def start() -> Any:
            if is_shared():
                attach()
            session = spark()
            sessions.append(session)
            pids.update(driver_processes())
            if kill is not None and (kill.step, kill.phase) == (Step.PUBLISH.name, MIDDLE):
                kill_between_files(kill, pids)
            elif kill is not None and kill.phase == MIDDLE:
                kill_while_reading(session, kill, pids)
            return session

        def observe(step: Step, phase: Phase) -> None:
            if kill is None or (kill.step, kill.phase) != (step.name, phase.value):
                return
            if kill.victim == EXECUTOR:
                running = wait_for(lambda: executors(sessions[0].sparkContext.applicationId), "an executor", 300)
                pids[EXECUTOR] = running[0]
            if kill.claim():
                _kill(pids[kill.victim])

        return original(start, replace(extraction, session_timeout_ms=SESSION_TIMEOUT_MS), observe=observe, **more)

    job.extract = extract
    kafka_zk(["extract", *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
