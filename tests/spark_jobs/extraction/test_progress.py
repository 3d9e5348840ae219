"""Progress from fake status stores with the shape of Spark's; tests/integration uses a real Spark."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from kafka_zk.spark_jobs.extraction.progress import JobProgress

SIZES = [20, 20, 10]
ROWS = "number of output rows"


def scala(*elements: Any) -> Any:
    return SimpleNamespace(size=lambda: len(elements), apply=lambda number: elements[number])


def scala_map(values: Mapping[int, str]) -> Any:
    return SimpleNamespace(contains=values.__contains__, apply=values.__getitem__)


def task(partition: int, status: str) -> Any:
    return SimpleNamespace(partitionId=lambda: partition, status=lambda: status)


def metric(number: int, name: str) -> Any:
    return SimpleNamespace(accumulatorId=lambda: number, name=lambda: name)


class Spark:
    """Job 7, of a stage that reads and one that writes, its execution, and the execution of another job."""

    def __init__(self, reading: tuple[Any, ...], writing: tuple[Any, ...], values: Mapping[int, str]) -> None:
        self.sparkContext = self._jsparkSession = self
        task_store = SimpleNamespace(taskList=lambda stage_id, *_: scala(*(writing if stage_id else reading)))
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: task_store))
        metrics = scala(metric(1, ROWS), metric(2, "data returned from Python workers"), metric(3, ROWS))
        executions = [
            SimpleNamespace(jobs=lambda: scala_map({9: ""}), executionId=lambda: 0, metrics=lambda: metrics),
            SimpleNamespace(jobs=lambda: scala_map({7: ""}), executionId=lambda: 1, metrics=lambda: metrics),
        ]
        self._executions = SimpleNamespace(
            executionsCount=lambda: 2,
            executionsList=lambda offset, count: scala(*executions[offset : offset + count]),
            executionMetrics=lambda number: scala_map(values if number == 1 else {1: "1,000"}),
        )

    def sharedState(self) -> Any:
        return SimpleNamespace(statusStore=lambda: self._executions)

    def statusTracker(self) -> "Spark":
        return self

    def getJobInfo(self, _: int) -> Any:
        return SimpleNamespace(stageIds=[1, 0])


def read(*tasks: Any, writing: tuple[Any, ...] = (), values: Mapping[int, str] | None = None) -> int:
    return JobProgress(Spark(tasks, writing, values or {}), "group", SIZES, lambda *_: None)._read([7])


def test_finished_tasks_count_whole() -> None:
    assert read(task(0, "SUCCESS"), task(1, "RUNNING"), task(2, "SUCCESS")) == 30
    assert read(task(0, "FAILED"), task(0, "RUNNING")) == 0
    assert read(task(2, "FAILED"), task(2, "SUCCESS")) == 10


def test_tasks_that_write_after_a_shuffle_have_read_nothing() -> None:
    assert read(task(0, "SUCCESS"), writing=(task(1, "SUCCESS"), task(7, "SUCCESS"))) == 20


def test_rows_that_running_tasks_have_read_count_too() -> None:
    running = task(0, "RUNNING"), task(1, "RUNNING")
    assert read(*running, values={1: "17", 2: "total (min, med, max)\n265.1 KiB"}) == 17
    assert read(task(0, "SUCCESS"), values={1: "4", 3: "3"}) == 20, "after compaction there are fewer than offsets"


def test_a_repeated_task_does_not_make_more_of_them_than_there_are() -> None:
    assert read(task(0, "FAILED"), values={3: "1,234"}) == 50
