"""Progress out of Spark's status store: running tasks count with what they have read."""

from types import SimpleNamespace
from typing import Any

from kafka_zk.spark_jobs.extraction.progress import JobProgress
from kafka_zk.spark_jobs.offset_ranges import OffsetRange
from kafka_zk.storage.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PIECES = [OffsetRange(*T0, 0, 20), OffsetRange(*T0, 20, 40), OffsetRange(*T1, 5, 15)]


class Option:
    def __init__(self, value: Any) -> None:
        self.get, self.isDefined = (lambda: value), (lambda: value is not None)


def task(partition: int, status: str, records_read: int | None) -> Any:
    read = SimpleNamespace(recordsRead=lambda: records_read)
    metrics = None if records_read is None else SimpleNamespace(inputMetrics=lambda: read)
    return SimpleNamespace(partitionId=lambda: partition, status=lambda: status, taskMetrics=lambda: Option(metrics))


class Spark:
    """One job of one stage."""

    def __init__(self, *tasks: Any) -> None:
        listed = SimpleNamespace(size=lambda: len(tasks), apply=lambda number: tasks[number])
        store = SimpleNamespace(statusStore=lambda: SimpleNamespace(taskList=lambda *_: listed))
        self.sparkContext = self
        self._jsc = SimpleNamespace(sc=lambda: store)

    def statusTracker(self) -> "Spark":
        return self

    def getJobIdsForGroup(self, _: str) -> list[int]:
        return [0]

    def getJobInfo(self, _: int) -> Any:
        return SimpleNamespace(stageIds=[0])


def told(*tasks: Any) -> dict[TopicPartition, tuple[int, int]]:
    seen: dict[TopicPartition, tuple[int, int]] = {}
    progress = JobProgress(Spark(*tasks), "group", PIECES, seen.update)
    progress._tell(progress._read_by_task())
    return seen


def test_finished_tasks_count_whole_and_running_ones_as_far_as_they_are() -> None:
    assert told(task(0, "SUCCESS", 17), task(1, "RUNNING", 6), task(2, "RUNNING", None)) == {T0: (26, 40), T1: (0, 10)}


def test_a_repeated_task_counts_once() -> None:
    tasks = [task(0, "FAILED", 12), task(0, "RUNNING", 3), task(2, "FAILED", 10), task(2, "SUCCESS", 10)]
    assert told(*tasks) == {T0: (12, 40), T1: (10, 10)}
