"""A Spark job's progress, from Spark's status stores.

Finished tasks count with their ranges. Running tasks report their rows with each heartbeat (``HEARTBEAT``), but Spark
shows only the sum of all tasks.
"""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Progress = Callable[[int, int], None]
"""Receives two numbers of offsets: read so far, and in total."""


def silent(done: int, total: int) -> None:
    """The ``Progress`` of a run without an observer, which does not poll Spark."""


HEARTBEAT = {"spark.executor.heartbeatInterval": "1s"}
"""Progress every second; Spark's default is ten."""
_POLL_S = 0.5
_MOST_TASKS = 100_000
_SUCCESS = "SUCCESS"
_ROWS = "number of output rows"
_NEWEST = 10  # recent executions to search, in case a notebook starts others in parallel
_NOT_A_DIGIT = re.compile(r"\D")


class JobProgress:
    """Calls ``progress`` while the ``with`` block runs.

    ``sizes``: number of offsets of each task, by task number.
    """

    def __init__(self, spark: Any, job_group: str, sizes: Sequence[int], progress: Progress) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._job_group = job_group
        self._sizes = sizes
        self._total = sum(sizes)
        self._progress = progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="extraction progress", daemon=True)

    def __enter__(self) -> None:
        self._context.setJobGroup(self._job_group, self._job_group)
        if self._progress is not silent:
            self._thread.start()

    def __exit__(self, failure: object, *_: object) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        if failure is None:
            self._progress(self._total, self._total)

    def _poll(self) -> None:
        from py4j.protocol import Py4JError

        while not self._done.wait(_POLL_S):
            try:
                if job_ids := list(self._context.statusTracker().getJobIdsForGroup(self._job_group)):
                    self._progress(self._read(job_ids), self._total)
            except (Py4JError, OSError):
                return  # the job does not depend on its progress

    def _read(self, job_ids: Sequence[int]) -> int:
        finished = sum(self._sizes[number] for number in self._finished_tasks(job_ids))
        return min(self._total, max(finished, self._rows(job_ids)))

    def _finished_tasks(self, job_ids: Sequence[int]) -> set[int]:
        jobs = filter(None, map(self._context.statusTracker().getJobInfo, job_ids))
        stages = [stage_id for job in jobs for stage_id in job.stageIds]
        if not stages:
            return set()
        tasks = self._context._jsc.sc().statusStore().taskList(min(stages), 0, _MOST_TASKS)
        listed = [tasks.apply(number) for number in range(tasks.size())]
        return {task.partitionId() for task in listed if task.status() == _SUCCESS}

    def _rows(self, job_ids: Sequence[int]) -> int:
        """The number of rows that the scan has read: the largest number of rows of any node in the plan."""
        store = self._spark._jsparkSession.sharedState().statusStore()
        oldest = max(0, store.executionsCount() - _NEWEST)
        most = 0
        for execution in _listed(store.executionsList(oldest, _NEWEST)):
            if any(execution.jobs().contains(job_id) for job_id in job_ids):
                ids = [each.accumulatorId() for each in _listed(execution.metrics()) if each.name() == _ROWS]
                values = store.executionMetrics(execution.executionId())
                told = [values.apply(number) for number in ids if values.contains(number)]
                most = max([most, *(int(_NOT_A_DIGIT.sub("", text) or 0) for text in told)])
        return most


def _listed(sequence: Any) -> Iterator[Any]:
    for number in range(sequence.size()):
        yield sequence.apply(number)
