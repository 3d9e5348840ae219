"""How far a running Spark job is, by partition of the topic: from Spark's own status store.

Finished tasks count with their ranges, running ones with the records that Spark has seen from them, which executors
tell with each heartbeat (``HEARTBEAT``).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_zk.spark_jobs.offset_ranges import OffsetRange
from kafka_zk.storage.types import TopicPartition

Progress = Callable[[Mapping[TopicPartition, tuple[int, int]]], None]
"""Told of each partition how many offsets are done, and of how many."""

_POLL_S = 0.25
_MOST_TASKS = 100_000
_SUCCESS = "SUCCESS"
HEARTBEAT = {"spark.executor.heartbeatInterval": "1s"}
"""Spark's configuration for a progress that moves every second; Spark's own interval is ten."""


class JobProgress:
    """While the block runs, tells ``progress`` what the tasks of the one job in it have done.

    ``pieces`` are the tasks' ranges in the order in which the source plans them.
    """

    def __init__(self, spark: Any, job_group: str, pieces: Sequence[OffsetRange], progress: Progress) -> None:
        self._context = spark.sparkContext
        self._job_group = job_group
        self._pieces = pieces
        self._progress = progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="extraction progress", daemon=True)

    def __enter__(self) -> None:
        self._context.setJobGroup(self._job_group, self._job_group)
        self._thread.start()

    def __exit__(self, failure: object, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if failure is None:
            self._tell({number: piece.size for number, piece in enumerate(self._pieces)})

    def _poll(self) -> None:
        from py4j.protocol import Py4JError

        while not self._done.wait(_POLL_S):
            try:
                read = self._read_by_task()
            except (Py4JError, OSError):
                return  # Spark's Java process is gone; the job fails of it and says so
            self._tell(read)

    def _read_by_task(self) -> dict[int, int]:
        """How many offsets of each piece are done, as far as is known; of several attempts the best."""
        tracker = self._context.statusTracker()
        store = self._context._jsc.sc().statusStore()
        read: dict[int, int] = {}
        for job_id in tracker.getJobIdsForGroup(self._job_group):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job else ():
                tasks = store.taskList(stage_id, 0, _MOST_TASKS)
                for number in range(tasks.size()):
                    task = tasks.apply(number)
                    read[task.partitionId()] = max(read.get(task.partitionId(), 0), self._read_by(task))
        return read

    def _read_by(self, task: Any) -> int:
        size: int = self._pieces[task.partitionId()].size
        if task.status() == _SUCCESS:
            return size
        metrics = task.taskMetrics()
        return min(size, int(metrics.get().inputMetrics().recordsRead())) if metrics.isDefined() else 0

    def _tell(self, read: Mapping[int, int]) -> None:
        told: dict[TopicPartition, tuple[int, int]] = {}
        for number, piece in enumerate(self._pieces):
            done, total = told.get(piece.topic_partition, (0, 0))
            told[piece.topic_partition] = done + read.get(number, 0), total + piece.size
        self._progress(told)
